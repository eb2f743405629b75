"""The scenario to start from: complete, commented, and passing as it stands.

Its case is a retryable write that loses its connection, because that needs every part of a file once:
entities, data, a fail point, an operation, events and an outcome. A test runs and lints it, so a change of
the format that would leave beginners with a broken file is noticed. `@…@` are the only places that are
filled in; the text is replaced rather than formatted, for braces are YAML here.
"""

from __future__ import annotations

import json
from typing import Final

_TEXT: Final = """\
# yaml-language-server: $schema=@SCHEMA@
#
# Run it:   pushbackd conform @FILE@
# Check it: pushbackd lint @FILE@
description: @NAME@
schemaVersion: "1.0"  # the lowest that has all that is used; pushbackd lint knows it

# Where the cases apply. Anywhere else they are skipped.
runOnRequirements:
  - topologies: [replicaset, sharded]

# What each case gets anew. Anchors (&) name a value once, aliases (*) use it.
createEntities:
  - client:
      id: &client client
      observeEvents: [commandStartedEvent]  # what expectEvents may speak of
  - database: { id: &database database, client: *client, databaseName: &databaseName shop }
  - collection: { id: &collection collection, database: *database, collectionName: &collectionName stock }

# What is there before each case.
initialData:
  - { collectionName: *collectionName, databaseName: *databaseName, documents: [{ _id: 1, qty: 1 }] }

tests:
  - description: an update that loses its connection is sent again and applied once
    operations:
      - name: failPoint  # the runner turns it off again after the case
        object: testRunner
        arguments:
          client: *client
          failPoint:
            configureFailPoint: failCommand
            mode: { times: 1 }
            data: { failCommands: [update], closeConnection: true }
      - name: updateOne
        object: *collection
        arguments: { filter: { _id: 1 }, update: { $inc: { qty: 1 } } }
        expectResult: { matchedCount: 1, modifiedCount: 1, upsertedCount: 0 }
    # All events of the client, in order; only the fields that are given are compared.
    expectEvents:
      - client: *client
        events:
          - commandStartedEvent: { commandName: update, command: { txnNumber: { $$exists: true } } }
          - commandStartedEvent: { commandName: update, command: { txnNumber: { $$exists: true } } }
    # What is there afterwards, to the letter.
    outcome:
      - { collectionName: *collectionName, databaseName: *databaseName, documents: [{ _id: 1, qty: 2 }] }
"""


def starting_text(file: str, *, schema: str) -> str:
    """Return the text of a new scenario with this file name; `schema` is the one that editors check it by."""
    name = json.dumps(file.rpartition(".")[0] or file, ensure_ascii=False)
    return _TEXT.replace("@SCHEMA@", schema).replace("@FILE@", file).replace("@NAME@", name)
