/* What a user of libmongoc does: connect, write, read, and survive a lost connection. */
#include <mongoc/mongoc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bson_error_t error;

static void
must (bool done, const char *what)
{
   if (!done) {
      fprintf (stderr, "%s: %s\n", what, error.message);
      exit (EXIT_FAILURE);
   }
}

/* Documents are written as JSON: that is what is easiest on the eye. */
static bson_t *
json (const char *text)
{
   bson_t *document = bson_new_from_json ((const uint8_t *) text, -1, &error);
   must (document != NULL, text);
   return document;
}

static void
insert (mongoc_collection_t *things, bson_t *thing)
{
   must (mongoc_collection_insert_one (things, thing, NULL, NULL, &error), "insert");
   bson_destroy (thing);
}

static void
update (mongoc_collection_t *things, bson_t *filter, bson_t *change)
{
   must (mongoc_collection_update_one (things, filter, change, NULL, NULL, &error), "update");
   bson_destroy (filter);
   bson_destroy (change);
}

static void
delete (mongoc_collection_t *things, bson_t *filter)
{
   must (mongoc_collection_delete_one (things, filter, NULL, NULL, &error), "delete");
   bson_destroy (filter);
}

static void
command (mongoc_client_t *client, bson_t *request, bson_t *reply)
{
   must (mongoc_client_command_simple (client, "admin", request, NULL, reply, &error), "command");
   bson_destroy (request);
}

static bson_t *
long_thing (void)
{
   char text[100001];
   bson_t *thing = json ("{\"_id\": 3, \"x\": 3}");
   memset (text, 'x', sizeof text - 1);
   text[sizeof text - 1] = '\0';
   BSON_APPEND_UTF8 (thing, "text", text);
   return thing;
}

static void
print (const bson_t *document)
{
   char *text = bson_as_relaxed_extended_json (document, NULL);
   printf ("%s", text);
   bson_free (text);
}

static void
print_found (mongoc_collection_t *things)
{
   bson_t *all = json ("{}");
   bson_t *options = json ("{\"projection\": {\"text\": 0}, \"sort\": {\"_id\": 1}}");
   mongoc_cursor_t *cursor = mongoc_collection_find_with_opts (things, all, options, NULL);
   const bson_t *thing;

   for (const char *comma = ""; mongoc_cursor_next (cursor, &thing); comma = ", ") {
      printf ("%s", comma);
      print (thing);
   }
   must (!mongoc_cursor_error (cursor, &error), "find");
   mongoc_cursor_destroy (cursor);
   bson_destroy (options);
   bson_destroy (all);
}

static void
print_users (mongoc_client_t *client)
{
   bson_t reply, users;
   bson_iter_t top, found;
   const uint8_t *data;
   uint32_t size;
   char *text;

   command (client, json ("{\"connectionStatus\": 1}"), &reply);
   must (bson_iter_init (&top, &reply) && bson_iter_find_descendant (&top, "authInfo.authenticatedUsers", &found),
         "connectionStatus");
   bson_iter_array (&found, &size, &data);
   must (bson_init_static (&users, data, size), "authenticatedUsers");
   text = bson_array_as_json (&users, NULL);
   printf ("%s", text);
   bson_free (text);
   bson_destroy (&reply);
}

int
main (int argc, char *argv[])
{
   mongoc_client_t *client;
   mongoc_collection_t *things;
   bson_t reply;

   mongoc_init ();
   client = argc == 2 ? mongoc_client_new (argv[1]) : NULL;
   if (!client) {
      fprintf (stderr, "usage: crud URI\n");
      return EXIT_FAILURE;
   }
   things = mongoc_client_get_collection (client, "db", "things");

   insert (things, json ("{\"_id\": 1, \"x\": 1}"));
   insert (things, json ("{\"_id\": 2, \"x\": 2}"));
   update (things, json ("{\"_id\": 1}"), json ("{\"$inc\": {\"x\": 10}}"));
   delete (things, json ("{\"_id\": 2}"));
   command (client,
            json ("{\"configureFailPoint\": \"failCommand\", \"mode\": {\"times\": 1},"
                  " \"data\": {\"failCommands\": [\"insert\"], \"closeConnection\": true}}"),
            &reply);
   bson_destroy (&reply);
   insert (things, long_thing ());

   printf ("{\"found\": [");
   print_found (things);
   printf ("], \"users\": ");
   print_users (client);
   printf (", \"version\": \"%s\"}\n", mongoc_get_version ());

   mongoc_collection_destroy (things);
   mongoc_client_destroy (client);
   mongoc_cleanup ();
   return EXIT_SUCCESS;
}
