"""Plans: indexes, their keys, and the choice between them.

From a document to its keys, and from a filter to the keys that are read:

* `index_keys`: the keys that one document has in one index (`KeyMaker`), and which documents it leaves out.
* `indexes`: the structures made of keys. `UniqueIndex` refuses a second holder, `OrderedIndex` keeps keys in
  order, `ValueIndex` finds equal values; each is made only where an index or a query needs it.
* `bounds`: a filter as clauses, a clause as intervals of keys, and what intervals leave to ask.
* `planning`: a `Plan` of an index for a query; its head has the rules. Start here.
* `index_scan`: the positions of the keys that a plan reads, and the count that `explain` shows.
* `search_rules`: text, geographic, hashed and wildcard indexes, which have no keys in order here.

`store.collection_state` owns the indexes of a collection, chooses between plans, and reads by the chosen one.
"""
