/* The operations of the unified test format, by the kind of entity and by name. */
#include "adapter.h"

#include <string.h>

/* Returns an argument that is a document or an array, empty where there is none. */
static const bson_t *argument(const struct call *call, const char *name, bson_t *view) {
    get_document(&call->arguments, name, view);
    return view;
}

/* Fails with a text where the driver tells of no error, and returns nothing. */
static bool fail(struct call *call, const char *message) {
    bson_set_error(&call->answer->error, MONGOC_ERROR_CLIENT, 0, "%s", message);
    return false;
}

/* Keeps the document of an error that a cursor lends. */
static bool keep_reply(struct call *call, const bson_t *reply) {
    if (reply != NULL) {
        bson_destroy(&call->answer->reply);
        bson_copy_to(reply, &call->answer->reply);
    }
    return false;
}

static const char *key_of(uint32_t index, char buffer[16]) {
    const char *key;
    bson_uint32_to_string(index, &key, buffer, 16);
    return key;
}

/* Appends one field of a reply as the result, null where there is none. */
static bool append_field(struct call *call, const char *name) {
    bson_iter_t found;
    if (bson_iter_init_find(&found, &call->answer->reply, name)) {
        bson_append_iter(&call->answer->result, "result", -1, &found);
    }
    return true;
}

/* ---- Cursors --------------------------------------------------------------------------------------------
 */

/* Reads a cursor to its end, and lets go of it. */
static bool drain(struct call *call, mongoc_cursor_t *cursor) {
    const bson_t *document, *reply;
    char buffer[16];
    bson_t list;
    BSON_APPEND_ARRAY_BEGIN(&call->answer->result, "result", &list);
    for (uint32_t index = 0; mongoc_cursor_next(cursor, &document); index++) {
        BSON_APPEND_DOCUMENT(&list, key_of(index, buffer), document);
    }
    bson_append_array_end(&call->answer->result, &list);
    bool failed = mongoc_cursor_error_document(cursor, &call->answer->error, &reply);
    if (failed) {
        keep_reply(call, reply);
    }
    mongoc_cursor_destroy(cursor);
    return !failed;
}

/* Makes an entity of what a scenario iterates. It keeps its client, but for that of a session. */
static struct entity *iterable(struct call *call, const char *kind) {
    struct entity *entity = new_entity(kind, call->target->client);
    if (call->session == NULL) {
        entity->kept = call->client;
        call->client = NULL;
    }
    call->answer->made = entity;
    return entity;
}

/* Makes an entity of a cursor, which exists on the server once its first document was asked for. */
static bool open_cursor(struct call *call, const char *kind, mongoc_cursor_t *cursor) {
    const bson_t *document, *reply;
    bson_t *first = mongoc_cursor_next(cursor, &document) ? bson_copy(document) : NULL;
    if (mongoc_cursor_error_document(cursor, &call->answer->error, &reply)) {
        keep_reply(call, reply);
        mongoc_cursor_destroy(cursor);
        return false;
    }
    struct entity *entity = iterable(call, kind);
    entity->cursor = cursor;
    entity->first = first;
    return true;
}

static bool open_stream(struct call *call, mongoc_change_stream_t *stream) {
    const bson_t *reply;
    if (mongoc_change_stream_error_document(stream, &call->answer->error, &reply)) {
        keep_reply(call, reply);
        mongoc_change_stream_destroy(stream);
        return false;
    }
    iterable(call, "changeStream")->stream = stream;
    return true;
}

/* Says whether a cursor or a stream has failed. */
static bool has_failed(struct call *call) {
    const struct entity *from = call->target;
    const bson_t *reply;
    bool failed = from->stream != NULL
                      ? mongoc_change_stream_error_document(from->stream, &call->answer->error, &reply)
                      : mongoc_cursor_error_document(from->cursor, &call->answer->error, &reply);
    return failed && !keep_reply(call, reply);
}

static bool iterate_once(struct call *call) {
    struct entity *from = call->target;
    const bson_t *document;
    if (from->first != NULL) {
        BSON_APPEND_DOCUMENT(&call->answer->result, "result", from->first);
        bson_destroy(from->first);
        from->first = NULL;
        return true;
    }
    if (from->cursor == NULL && from->stream == NULL) {
        return fail(call, "the cursor was closed");
    }
    bool more = from->stream != NULL || mongoc_cursor_more(from->cursor);
    if (more && (from->stream != NULL ? mongoc_change_stream_next(from->stream, &document)
                                      : mongoc_cursor_next(from->cursor, &document))) {
        BSON_APPEND_DOCUMENT(&call->answer->result, "result", document);
        return true;
    }
    return !has_failed(call);
}

static bool iterate_until_document_or_error(struct call *call) {
    while (iterate_once(call)) {
        if (!bson_empty(&call->answer->result)) {
            return true;
        }
        if (call->target->cursor != NULL && !mongoc_cursor_more(call->target->cursor)) {
            return fail(call, "the cursor has no more documents");
        }
    }
    return false;
}

static bool close_iterable(struct call *call) {
    close_cursor(call->target);
    return true;
}

/* ---- Clients and databases ------------------------------------------------------------------------------
 */

static bool append_names(struct call *call, char **names) {
    char buffer[16];
    bson_t list;
    if (names == NULL) {
        return false;
    }
    BSON_APPEND_ARRAY_BEGIN(&call->answer->result, "result", &list);
    for (uint32_t index = 0; names[index] != NULL; index++) {
        BSON_APPEND_UTF8(&list, key_of(index, buffer), names[index]);
    }
    bson_append_array_end(&call->answer->result, &list);
    bson_strfreev(names);
    return true;
}

static bool list_databases(struct call *call) {
    return drain(call, mongoc_client_find_databases_with_opts(call->client, &call->opts));
}

static bool list_database_names(struct call *call) {
    return append_names(
        call, mongoc_client_get_database_names_with_opts(call->client, &call->opts, &call->answer->error));
}

static bool drop_database(struct call *call) {
    mongoc_database_t *database =
        mongoc_client_get_database(call->client, get_text(&call->arguments, "database"));
    bool done = mongoc_database_drop_with_opts(database, &call->opts, &call->answer->error);
    mongoc_database_destroy(database);
    return done;
}

static bool watch_client(struct call *call) {
    bson_t pipeline;
    return open_stream(call,
                       mongoc_client_watch(call->client, argument(call, "pipeline", &pipeline), &call->opts));
}

/* Returns the command of a scenario; its name comes first, whatever its order in the file. */
static bson_t *command_of(struct call *call) {
    const char *name = get_text(&call->arguments, "commandName");
    bson_t *command = bson_new();
    bson_t given;
    bson_iter_t first;
    argument(call, "command", &given);
    if (name != NULL && bson_iter_init_find(&first, &given, name)) {
        bson_append_iter(command, NULL, 0, &first);
        bson_copy_to_excluding_noinit(&given, command, name, NULL);
    } else {
        bson_concat(command, &given);
    }
    return command;
}

static bool run_command(struct call *call) {
    bson_t *command = command_of(call);
    bool done = mongoc_database_command_with_opts(call->database, command, call->prefs, &call->opts,
                                                  &call->answer->reply, &call->answer->error);
    bson_destroy(command);
    if (done) {
        BSON_APPEND_DOCUMENT(&call->answer->result, "result", &call->answer->reply);
    }
    return done;
}

/* Returns the server for a cursor of a command: that of the session's transaction, or one that is selected.
 */
static uint32_t server_of(struct call *call) {
    uint32_t id = call->session == NULL ? 0 : mongoc_client_session_get_server_id(call->session->session);
    if (id == 0) {
        mongoc_server_description_t *selected =
            mongoc_client_select_server(call->client, false, call->prefs, &call->answer->error);
        id = selected == NULL ? 0 : mongoc_server_description_id(selected);
        mongoc_server_description_destroy(selected);
    }
    return id;
}

/* Runs a command and returns a cursor over its reply, as the driver's documentation shows it. */
static mongoc_cursor_t *command_cursor(struct call *call) {
    static const char of_get_more[] = "batchSize maxTimeMS comment tailable awaitData";
    uint32_t server = server_of(call);
    if (server == 0) {
        return NULL;
    }
    bson_t *command = command_of(call);
    bson_t once = BSON_INITIALIZER;
    bson_t more = BSON_INITIALIZER;
    bson_iter_t each;
    bson_iter_init(&each, &call->opts);
    while (bson_iter_next(&each)) {
        const char *name = strcmp(bson_iter_key(&each), "maxTimeMS") == 0 ? "maxAwaitTimeMS" : NULL;
        bson_append_iter(&more, name, -1, &each);
        if (!has_word(of_get_more, bson_iter_key(&each))) {
            bson_append_iter(&once, NULL, 0, &each);
        }
    }
    BSON_APPEND_INT64(&once, "serverId", server);
    BSON_APPEND_INT64(&more, "serverId", server);
    bool done = mongoc_database_command_with_opts(call->database, command, call->prefs, &once,
                                                  &call->answer->reply, &call->answer->error);
    mongoc_cursor_t *cursor = NULL;
    if (done) { /* the cursor takes the reply */
        cursor = mongoc_cursor_new_from_command_reply_with_opts(call->client, &call->answer->reply, &more);
        bson_init(&call->answer->reply);
    }
    bson_destroy(command);
    bson_destroy(&once);
    bson_destroy(&more);
    return cursor;
}

static bool run_cursor_command(struct call *call) {
    mongoc_cursor_t *cursor = command_cursor(call);
    return cursor != NULL && drain(call, cursor);
}

static bool create_command_cursor(struct call *call) {
    mongoc_cursor_t *cursor = command_cursor(call);
    return cursor != NULL && open_cursor(call, "commandCursor", cursor);
}

static bool aggregate_database(struct call *call) {
    bson_t pipeline;
    return drain(call, mongoc_database_aggregate(call->database, argument(call, "pipeline", &pipeline),
                                                 &call->opts, call->prefs));
}

static bool list_collections(struct call *call) {
    return drain(call, mongoc_database_find_collections_with_opts(call->database, &call->opts));
}

static bool list_collection_names(struct call *call) {
    return append_names(call, mongoc_database_get_collection_names_with_opts(call->database, &call->opts,
                                                                             &call->answer->error));
}

static bool create_collection(struct call *call) {
    const char *name = get_text(&call->arguments, "collection");
    mongoc_collection_t *collection =
        mongoc_database_create_collection(call->database, name, &call->opts, &call->answer->error);
    if (collection == NULL) {
        return false;
    }
    mongoc_collection_destroy(collection);
    struct entity *made = new_entity("collection", call->target->client);
    made->database = bson_strdup(call->target->database);
    made->collection = bson_strdup(name);
    bson_concat(&made->options, &call->target->options);
    call->answer->made = made;
    return true;
}

static bool drop_collection(struct call *call) {
    mongoc_collection_t *collection =
        mongoc_database_get_collection(call->database, get_text(&call->arguments, "collection"));
    bool done = mongoc_collection_drop_with_opts(collection, &call->opts, &call->answer->error);
    mongoc_collection_destroy(collection);
    return done;
}

static bool modify_collection(struct call *call) {
    bson_t command = BSON_INITIALIZER;
    bson_t opts = BSON_INITIALIZER;
    bson_iter_t session;
    BSON_APPEND_UTF8(&command, "collMod", get_text(&call->arguments, "collection"));
    bson_copy_to_excluding_noinit(&call->opts, &command, "sessionId", NULL);
    if (bson_iter_init_find(&session, &call->opts, "sessionId")) {
        bson_append_iter(&opts, NULL, 0, &session);
    }
    bool done = mongoc_database_write_command_with_opts(call->database, &command, &opts, &call->answer->reply,
                                                        &call->answer->error);
    bson_destroy(&command);
    bson_destroy(&opts);
    if (done) {
        BSON_APPEND_DOCUMENT(&call->answer->result, "result", &call->answer->reply);
    }
    return done;
}

static bool watch_database(struct call *call) {
    bson_t pipeline;
    return open_stream(
        call, mongoc_database_watch(call->database, argument(call, "pipeline", &pipeline), &call->opts));
}

/* ---- Collections: writes --------------------------------------------------------------------------------
 */

static bool insert_one(struct call *call) {
    struct answer *answer = call->answer;
    bson_t document;
    if (!mongoc_collection_insert_one(call->collection, argument(call, "document", &document), &call->opts,
                                      &answer->reply, &answer->error)) {
        return false;
    }
    append_insert(&answer->result, &answer->reply);
    return true;
}

static bool insert_many(struct call *call) {
    struct answer *answer = call->answer;
    bson_t list;
    bson_iter_t each;
    argument(call, "documents", &list);
    size_t count = bson_count_keys(&list);
    bson_t *documents = bson_malloc0((count + 1) * sizeof *documents);
    const bson_t **pointers = bson_malloc0((count + 1) * sizeof *pointers);
    bson_iter_init(&each, &list);
    for (size_t index = 0; bson_iter_next(&each); index++) {
        get_document(&list, bson_iter_key(&each), &documents[index]);
        pointers[index] = &documents[index];
    }
    bool done = mongoc_collection_insert_many(call->collection, pointers, count, &call->opts, &answer->reply,
                                              &answer->error);
    bson_free(pointers);
    bson_free(documents);
    if (done) {
        append_insert(&answer->result, &answer->reply);
    }
    return done;
}

typedef bool (*update_function)(mongoc_collection_t *, const bson_t *, const bson_t *, const bson_t *,
                                bson_t *, bson_error_t *);

static bool update(struct call *call, const char *change, update_function run) {
    struct answer *answer = call->answer;
    bson_t filter, update;
    bool done = run(call->collection, argument(call, "filter", &filter), argument(call, change, &update),
                    &call->opts, &answer->reply, &answer->error);
    if (done) {
        append_update(&answer->result, &answer->reply);
    }
    return done;
}

static bool update_one(struct call *call) { return update(call, "update", mongoc_collection_update_one); }

static bool update_many(struct call *call) { return update(call, "update", mongoc_collection_update_many); }

static bool replace_one(struct call *call) {
    return update(call, "replacement", mongoc_collection_replace_one);
}

typedef bool (*delete_function)(mongoc_collection_t *, const bson_t *, const bson_t *, bson_t *,
                                bson_error_t *);

static bool delete_with(struct call *call, delete_function run) {
    struct answer *answer = call->answer;
    bson_t filter;
    bool done =
        run(call->collection, argument(call, "filter", &filter), &call->opts, &answer->reply, &answer->error);
    if (done) {
        append_delete(&answer->result, &answer->reply);
    }
    return done;
}

static bool delete_one(struct call *call) { return delete_with(call, mongoc_collection_delete_one); }

static bool delete_many(struct call *call) { return delete_with(call, mongoc_collection_delete_many); }

/* Adds a request of a bulk write, a document of one field. */
static bool add_write(struct call *call, mongoc_bulk_operation_t *bulk, const bson_t *request) {
    bson_t model, filter, change;
    bson_t opts = BSON_INITIALIZER;
    bson_error_t *error = &call->answer->error;
    bson_iter_t only;
    bson_iter_init(&only, request);
    bson_iter_next(&only);
    const char *name = bson_iter_key(&only);
    get_document(request, name, &model);
    get_document(&model, "filter", &filter);
    get_document(&model, strcmp(name, "replaceOne") == 0 ? "replacement" : "update", &change);
    bool added = false;
    if (strcmp(name, "insertOne") == 0) {
        get_document(&model, "document", &change);
        added = read_options(call, &model, "document", "", &opts) &&
                mongoc_bulk_operation_insert_with_opts(bulk, &change, &opts, error);
    } else if (strcmp(name, "updateOne") == 0) {
        added = read_options(call, &model, "filter update", "arrayFilters collation hint upsert", &opts) &&
                mongoc_bulk_operation_update_one_with_opts(bulk, &filter, &change, &opts, error);
    } else if (strcmp(name, "updateMany") == 0) {
        added = read_options(call, &model, "filter update", "arrayFilters collation hint upsert", &opts) &&
                mongoc_bulk_operation_update_many_with_opts(bulk, &filter, &change, &opts, error);
    } else if (strcmp(name, "replaceOne") == 0) {
        added = read_options(call, &model, "filter replacement", "collation hint upsert", &opts) &&
                mongoc_bulk_operation_replace_one_with_opts(bulk, &filter, &change, &opts, error);
    } else if (strcmp(name, "deleteOne") == 0) {
        added = read_options(call, &model, "filter", "collation hint", &opts) &&
                mongoc_bulk_operation_remove_one_with_opts(bulk, &filter, &opts, error);
    } else if (strcmp(name, "deleteMany") == 0) {
        added = read_options(call, &model, "filter", "collation hint", &opts) &&
                mongoc_bulk_operation_remove_many_with_opts(bulk, &filter, &opts, error);
    } else {
        refuse(call->answer, "no model %s", name);
    }
    bson_destroy(&opts);
    return added;
}

static bool bulk_write(struct call *call) {
    struct answer *answer = call->answer;
    bson_t requests, request;
    bson_iter_t each;
    mongoc_bulk_operation_t *bulk =
        mongoc_collection_create_bulk_operation_with_opts(call->collection, &call->opts);
    if (bson_iter_init_find(&each, &call->arguments, "bypassDocumentValidation")) {
        mongoc_bulk_operation_set_bypass_document_validation(bulk, bson_iter_as_bool(&each));
    }
    argument(call, "requests", &requests);
    bson_iter_init(&each, &requests);
    bool done = true;
    while (done && bson_iter_next(&each)) {
        get_document(&requests, bson_iter_key(&each), &request);
        done = add_write(call, bulk, &request);
    }
    done = done && mongoc_bulk_operation_execute(bulk, &answer->reply, &answer->error) != 0;
    mongoc_bulk_operation_destroy(bulk);
    if (done) {
        append_bulk(&answer->result, &answer->reply);
    }
    return done;
}

/* Gives the options of findAndModify to the driver, most of them by a setter of their own. */
static mongoc_find_and_modify_opts_t *modify_opts_of(const struct call *call, int flags) {
    mongoc_find_and_modify_opts_t *opts = mongoc_find_and_modify_opts_new();
    bson_t extra = BSON_INITIALIZER;
    bson_t view;
    bson_iter_t each;
    bson_iter_init(&each, &call->opts);
    while (bson_iter_next(&each)) {
        const char *name = bson_iter_key(&each);
        if (strcmp(name, "sort") == 0 && get_document(&call->opts, name, &view)) {
            mongoc_find_and_modify_opts_set_sort(opts, &view);
        } else if (strcmp(name, "projection") == 0 && get_document(&call->opts, name, &view)) {
            mongoc_find_and_modify_opts_set_fields(opts, &view);
        } else if (strcmp(name, "returnDocument") == 0) {
            bool after = strcmp(bson_iter_utf8(&each, NULL), "After") == 0;
            flags |= after ? MONGOC_FIND_AND_MODIFY_RETURN_NEW : 0;
        } else if (strcmp(name, "upsert") == 0) {
            flags |= bson_iter_as_bool(&each) ? MONGOC_FIND_AND_MODIFY_UPSERT : 0;
        } else if (strcmp(name, "bypassDocumentValidation") == 0) {
            mongoc_find_and_modify_opts_set_bypass_document_validation(opts, bson_iter_as_bool(&each));
        } else if (strcmp(name, "maxTimeMS") == 0) {
            mongoc_find_and_modify_opts_set_max_time_ms(opts, (uint32_t)bson_iter_as_int64(&each));
        } else {
            bson_append_iter(&extra, NULL, 0, &each);
        }
    }
    mongoc_find_and_modify_opts_set_flags(opts, (mongoc_find_and_modify_flags_t)flags);
    mongoc_find_and_modify_opts_append(opts, &extra);
    bson_destroy(&extra);
    return opts;
}

static bool find_and_modify(struct call *call, const char *change, int flags) {
    struct answer *answer = call->answer;
    bson_t filter, update;
    mongoc_find_and_modify_opts_t *opts = modify_opts_of(call, flags);
    if (get_document(&call->arguments, change, &update)) {
        mongoc_find_and_modify_opts_set_update(opts, &update);
    }
    bool done = mongoc_collection_find_and_modify_with_opts(
        call->collection, argument(call, "filter", &filter), opts, &answer->reply, &answer->error);
    mongoc_find_and_modify_opts_destroy(opts);
    return done && append_field(call, "value");
}

static bool find_one_and_update(struct call *call) {
    return find_and_modify(call, "update", MONGOC_FIND_AND_MODIFY_NONE);
}

static bool find_one_and_replace(struct call *call) {
    return find_and_modify(call, "replacement", MONGOC_FIND_AND_MODIFY_NONE);
}

static bool find_one_and_delete(struct call *call) {
    return find_and_modify(call, "", MONGOC_FIND_AND_MODIFY_REMOVE);
}

/* ---- Collections: reads ---------------------------------------------------------------------------------
 */

static mongoc_cursor_t *found(struct call *call) {
    bson_t filter;
    return mongoc_collection_find_with_opts(call->collection, argument(call, "filter", &filter), &call->opts,
                                            call->prefs);
}

static bool find(struct call *call) { return drain(call, found(call)); }

static bool create_find_cursor(struct call *call) { return open_cursor(call, "findCursor", found(call)); }

/* The driver has no function for one document: its documentation gives a limit to a cursor. */
static bool find_one(struct call *call) {
    bson_t all, first, document;
    BSON_APPEND_INT64(&call->opts, "limit", 1);
    BSON_APPEND_BOOL(&call->opts, "singleBatch", true);
    if (!find(call)) {
        return false;
    }
    bson_steal(&all, &call->answer->result);
    bson_init(&call->answer->result);
    get_document(&all, "result", &first);
    if (get_document(&first, "0", &document)) {
        BSON_APPEND_DOCUMENT(&call->answer->result, "result", &document);
    }
    bson_destroy(&all);
    return true;
}

static bool aggregate(struct call *call) {
    bson_t pipeline;
    return drain(call, mongoc_collection_aggregate(call->collection, MONGOC_QUERY_NONE,
                                                   argument(call, "pipeline", &pipeline), &call->opts,
                                                   call->prefs));
}

static bool append_number(struct call *call, int64_t count) {
    BSON_APPEND_INT64(&call->answer->result, "result", count);
    return count >= 0;
}

static bool count_documents(struct call *call) {
    bson_t filter;
    return append_number(call, mongoc_collection_count_documents(
                                   call->collection, argument(call, "filter", &filter), &call->opts,
                                   call->prefs, &call->answer->reply, &call->answer->error));
}

static bool estimated_document_count(struct call *call) {
    return append_number(call, mongoc_collection_estimated_document_count(call->collection, &call->opts,
                                                                          call->prefs, &call->answer->reply,
                                                                          &call->answer->error));
}

/* The driver has no function for distinct: its documentation runs the command as a read. */
static bool distinct(struct call *call) {
    bson_t command = BSON_INITIALIZER;
    bson_t filter;
    BSON_APPEND_UTF8(&command, "distinct", call->target->collection);
    BSON_APPEND_UTF8(&command, "key", get_text(&call->arguments, "fieldName"));
    BSON_APPEND_DOCUMENT(&command, "query", argument(call, "filter", &filter));
    bool done = mongoc_collection_read_command_with_opts(call->collection, &command, call->prefs, &call->opts,
                                                         &call->answer->reply, &call->answer->error);
    bson_destroy(&command);
    return done && append_field(call, "values");
}

static bool watch(struct call *call) {
    bson_t pipeline;
    return open_stream(
        call, mongoc_collection_watch(call->collection, argument(call, "pipeline", &pipeline), &call->opts));
}

/* ---- Collections: definitions ---------------------------------------------------------------------------
 */

/* Creates an index by a command, as the driver's documentation does. */
static bool create_index(struct call *call) {
    static const char of_command[] = "sessionId writeConcern commitQuorum maxTimeMS comment";
    bson_t command = BSON_INITIALIZER;
    bson_t opts = BSON_INITIALIZER;
    bson_t keys, list, index;
    bson_iter_t each;
    char *name = mongoc_collection_keys_to_index_string(argument(call, "keys", &keys));
    BSON_APPEND_UTF8(&command, "createIndexes", call->target->collection);
    BSON_APPEND_ARRAY_BEGIN(&command, "indexes", &list);
    BSON_APPEND_DOCUMENT_BEGIN(&list, "0", &index);
    BSON_APPEND_DOCUMENT(&index, "key", &keys);
    if (!bson_has_field(&call->opts, "name")) {
        BSON_APPEND_UTF8(&index, "name", name);
    }
    bson_iter_init(&each, &call->opts);
    while (bson_iter_next(&each)) {
        bson_append_iter(has_word(of_command, bson_iter_key(&each)) ? &opts : &index, NULL, 0, &each);
    }
    bson_append_document_end(&list, &index);
    bson_append_array_end(&command, &list);
    bool done = mongoc_collection_write_command_with_opts(call->collection, &command, &opts,
                                                          &call->answer->reply, &call->answer->error);
    const char *given = get_text(&call->opts, "name");
    BSON_APPEND_UTF8(&call->answer->result, "result", given == NULL ? name : given);
    bson_free(name);
    bson_destroy(&command);
    bson_destroy(&opts);
    return done;
}

static bool drop_index(struct call *call) {
    return mongoc_collection_drop_index_with_opts(call->collection, get_text(&call->arguments, "name"),
                                                  &call->opts, &call->answer->error);
}

static bool drop_indexes(struct call *call) {
    return mongoc_collection_drop_index_with_opts(call->collection, "*", &call->opts, &call->answer->error);
}

static bool list_indexes(struct call *call) {
    return drain(call, mongoc_collection_find_indexes_with_opts(call->collection, &call->opts));
}

static bool drop(struct call *call) {
    return mongoc_collection_drop_with_opts(call->collection, &call->opts, &call->answer->error);
}

static bool rename_collection(struct call *call) {
    bson_iter_t found;
    bool drop_target =
        bson_iter_init_find(&found, &call->arguments, "dropTarget") && bson_iter_as_bool(&found);
    return mongoc_collection_rename_with_opts(call->collection, call->target->database,
                                              get_text(&call->arguments, "to"), drop_target, &call->opts,
                                              &call->answer->error);
}

/* ---- Buckets --------------------------------------------------------------------------------------------
 */

/* Writes a file's content, and lets go of the stream. */
static bool write_all(struct call *call, mongoc_stream_t *stream) {
    bson_iter_t source;
    uint32_t length;
    const uint8_t *data;
    if (stream == NULL) {
        return false;
    }
    bson_iter_init_find(&source, &call->arguments, "source");
    bson_iter_binary(&source, NULL, &length, &data);
    bool written = length == 0 || mongoc_stream_write(stream, (void *)data, length, 0) == (ssize_t)length;
    written = written && mongoc_stream_close(stream) == 0;
    if (!written) {
        mongoc_gridfs_bucket_stream_error(stream, &call->answer->error);
    }
    mongoc_stream_destroy(stream);
    return written;
}

static bool upload(struct call *call) {
    bson_value_t id;
    mongoc_stream_t *stream = mongoc_gridfs_bucket_open_upload_stream(
        call->bucket, get_text(&call->arguments, "filename"), &call->opts, &id, &call->answer->error);
    if (!write_all(call, stream)) {
        return false;
    }
    BSON_APPEND_VALUE(&call->answer->result, "result", &id);
    bson_value_destroy(&id);
    return true;
}

static const bson_value_t *id_of(struct call *call, bson_iter_t *found) {
    bson_iter_init_find(found, &call->arguments, "id");
    return bson_iter_value(found);
}

static bool upload_with_id(struct call *call) {
    bson_iter_t found;
    return write_all(call, mongoc_gridfs_bucket_open_upload_stream_with_id(
                               call->bucket, id_of(call, &found), get_text(&call->arguments, "filename"),
                               &call->opts, &call->answer->error));
}

static bool download(struct call *call) {
    enum { PART_BYTES = 1 << 16 };
    bson_iter_t found;
    mongoc_stream_t *stream =
        mongoc_gridfs_bucket_open_download_stream(call->bucket, id_of(call, &found), &call->answer->error);
    if (stream == NULL) {
        return false;
    }
    uint8_t *data = NULL;
    size_t length = 0;
    ssize_t read;
    do {
        data = bson_realloc(data, length + PART_BYTES);
        read = mongoc_stream_read(stream, data + length, PART_BYTES, 1, 0);
        length += read > 0 ? (size_t)read : 0;
    } while (read > 0);
    bool failed = mongoc_gridfs_bucket_stream_error(stream, &call->answer->error);
    BSON_APPEND_BINARY(&call->answer->result, "result", BSON_SUBTYPE_BINARY, data, (uint32_t)length);
    bson_free(data);
    mongoc_stream_destroy(stream);
    return !failed;
}

static bool delete_file(struct call *call) {
    bson_iter_t found;
    return mongoc_gridfs_bucket_delete_by_id(call->bucket, id_of(call, &found), &call->answer->error);
}

static bool find_files(struct call *call) {
    bson_t filter;
    return drain(call,
                 mongoc_gridfs_bucket_find(call->bucket, argument(call, "filter", &filter), &call->opts));
}

/* ---- Sessions -------------------------------------------------------------------------------------------
 */

/* Says whether a session is open: the driver takes no NULL. */
static bool is_open(struct call *call) {
    return call->target->session != NULL || fail(call, "the session was ended");
}

static bool start_transaction(struct call *call) {
    if (!is_open(call)) {
        return false;
    }
    mongoc_transaction_opt_t *opts = transaction_opts_of(&call->arguments);
    bool done = mongoc_client_session_start_transaction(call->target->session, opts, &call->answer->error);
    mongoc_transaction_opts_destroy(opts);
    return done;
}

static bool commit_transaction(struct call *call) {
    return is_open(call) && mongoc_client_session_commit_transaction(
                                call->target->session, &call->answer->reply, &call->answer->error);
}

static bool abort_transaction(struct call *call) {
    return is_open(call) &&
           mongoc_client_session_abort_transaction(call->target->session, &call->answer->error);
}

static bool end(struct call *call) {
    end_session(call->target);
    return true;
}

static bool callback(mongoc_client_session_t *session, void *context, bson_t **reply, bson_error_t *error) {
    const struct call *call = context;
    (void)session;
    return run_callback(call->id, error, reply);
}

static bool with_transaction(struct call *call) {
    if (!is_open(call)) {
        return false;
    }
    mongoc_transaction_opt_t *opts = transaction_opts_of(&call->arguments);
    bool done = mongoc_client_session_with_transaction(call->target->session, callback, opts, call,
                                                       &call->answer->reply, &call->answer->error);
    mongoc_transaction_opts_destroy(opts);
    return done;
}

/* ---- Names and arguments --------------------------------------------------------------------------------
 */

#define WRITE "session comment writeConcern "
#define UPDATE WRITE "arrayFilters bypassDocumentValidation collation hint let upsert"
#define MODIFY WRITE "bypassDocumentValidation collation hint let maxTimeMS projection sort "
#define FIND                                                                                                 \
    "session allowDiskUse allowPartialResults batchSize collation comment cursorType hint let max "          \
    "maxAwaitTimeMS maxTimeMS min noCursorTimeout oplogReplay projection readPreference returnKey "          \
    "showRecordId skip sort "
#define AGGREGATE                                                                                            \
    "session allowDiskUse batchSize bypassDocumentValidation collation comment hint let maxAwaitTimeMS "     \
    "maxTimeMS readPreference writeConcern"
#define WATCH                                                                                                \
    "session batchSize collation comment fullDocument fullDocumentBeforeChange maxAwaitTimeMS resumeAfter "  \
    "showExpandedEvents startAfter startAtOperationTime"
#define CREATE                                                                                               \
    "session capped changeStreamPreAndPostImages clusteredIndex collation comment encryptedFields "          \
    "expireAfterSeconds indexOptionDefaults max pipeline size storageEngine timeseries validationAction "    \
    "validationLevel validator viewOn writeConcern"
#define INDEX                                                                                                \
    WRITE                                                                                                    \
    "2dsphereIndexVersion background bits bucketSize clustered collation commitQuorum default_language "     \
    "expireAfterSeconds hidden language_override max maxTimeMS min name partialFilterExpression sparse "     \
    "sphereIndexVersion storageEngine textIndexVersion unique weights wildcardProjection"
#define BUCKET "bucketName chunkSizeBytes readConcern readPreference writeConcern"
#define TRANSACTION "readConcern writeConcern readPreference maxCommitTimeMS"
#define ITERABLE(kind)                                                                                       \
    {kind, "iterateOnce", iterate_once, "", ""},                                                             \
        {kind, "iterateUntilDocumentOrError", iterate_until_document_or_error, "", ""},                      \
        {kind, "close", close_iterable, "", ""}

static const struct operation {
    const char *kind, *name;
    bool (*run)(struct call *call);
    const char *positional, *options;
} operations[] = {
    {"client", "listDatabases", list_databases, "", "session authorizedDatabases comment filter nameOnly"},
    {"client", "listDatabaseNames", list_database_names, "", "session authorizedDatabases comment filter"},
    {"client", "dropDatabase", drop_database, "database", "session writeConcern"},
    {"client", "createChangeStream", watch_client, "pipeline", WATCH},
    {"database", "runCommand", run_command, "command commandName", "session readConcern readPreference"},
    {"database", "runCursorCommand", run_cursor_command, "command commandName",
     "session batchSize comment cursorType maxTimeMS readPreference"},
    {"database", "createCommandCursor", create_command_cursor, "command commandName",
     "session batchSize comment cursorType maxTimeMS readPreference"},
    {"database", "aggregate", aggregate_database, "pipeline", AGGREGATE},
    {"database", "listCollections", list_collections, "",
     "session authorizedCollections batchSize comment filter nameOnly"},
    {"database", "listCollectionNames", list_collection_names, "", "session comment filter"},
    {"database", "createCollection", create_collection, "collection", CREATE},
    {"database", "dropCollection", drop_collection, "collection", "session comment writeConcern"},
    {"database", "modifyCollection", modify_collection, "collection",
     "session changeStreamPreAndPostImages comment expireAfterSeconds index pipeline validationAction "
     "validationLevel validator viewOn"},
    {"database", "createChangeStream", watch_database, "pipeline", WATCH},
    {"collection", "insertOne", insert_one, "document", WRITE "bypassDocumentValidation"},
    {"collection", "insertMany", insert_many, "documents", WRITE "bypassDocumentValidation ordered"},
    {"collection", "updateOne", update_one, "filter update", UPDATE},
    {"collection", "updateMany", update_many, "filter update", UPDATE},
    {"collection", "replaceOne", replace_one, "filter replacement",
     WRITE "bypassDocumentValidation collation hint let upsert"},
    {"collection", "deleteOne", delete_one, "filter", WRITE "collation hint let"},
    {"collection", "deleteMany", delete_many, "filter", WRITE "collation hint let"},
    {"collection", "bulkWrite", bulk_write, "requests bypassDocumentValidation", WRITE "let ordered"},
    {"collection", "findOneAndUpdate", find_one_and_update, "filter update",
     MODIFY "arrayFilters returnDocument upsert"},
    {"collection", "findOneAndReplace", find_one_and_replace, "filter replacement",
     MODIFY "returnDocument upsert"},
    {"collection", "findOneAndDelete", find_one_and_delete, "filter", MODIFY},
    {"collection", "find", find, "filter", FIND "limit"},
    {"collection", "createFindCursor", create_find_cursor, "filter", FIND "limit"},
    {"collection", "findOne", find_one, "filter", FIND},
    {"collection", "aggregate", aggregate, "pipeline", AGGREGATE},
    {"collection", "countDocuments", count_documents, "filter",
     "session collation comment hint limit maxTimeMS readPreference skip"},
    {"collection", "estimatedDocumentCount", estimated_document_count, "",
     "session comment maxTimeMS readPreference"},
    {"collection", "distinct", distinct, "fieldName filter",
     "session collation comment hint maxTimeMS readPreference"},
    {"collection", "createIndex", create_index, "keys", INDEX},
    {"collection", "dropIndex", drop_index, "name", "session comment maxTimeMS writeConcern"},
    {"collection", "dropIndexes", drop_indexes, "", "session comment maxTimeMS writeConcern"},
    {"collection", "listIndexes", list_indexes, "", "session batchSize comment maxTimeMS"},
    {"collection", "drop", drop, "", "session comment writeConcern"},
    {"collection", "rename", rename_collection, "to dropTarget", "session comment writeConcern"},
    {"collection", "createChangeStream", watch, "pipeline", WATCH},
    {"bucket", "upload", upload, "filename source disableMD5", "chunkSizeBytes metadata"},
    {"bucket", "uploadWithId", upload_with_id, "id filename source disableMD5", "chunkSizeBytes metadata"},
    {"bucket", "download", download, "id", ""},
    {"bucket", "delete", delete_file, "id", ""},
    {"bucket", "find", find_files, "filter", "batchSize limit maxTimeMS noCursorTimeout skip sort"},
    {"session", "startTransaction", start_transaction, TRANSACTION, ""},
    {"session", "commitTransaction", commit_transaction, "", ""},
    {"session", "abortTransaction", abort_transaction, "", ""},
    {"session", "withTransaction", with_transaction, "callback " TRANSACTION, ""},
    {"session", "endSession", end, "", ""},
    ITERABLE("findCursor"),
    ITERABLE("commandCursor"),
    ITERABLE("changeStream"),
};

static const struct operation *find_operation(const char *kind, const char *name) {
    for (size_t index = 0; index < sizeof operations / sizeof *operations; index++) {
        if (strcmp(operations[index].kind, kind) == 0 && strcmp(operations[index].name, name) == 0) {
            return &operations[index];
        }
    }
    return NULL;
}

/* ---- Running an operation -------------------------------------------------------------------------------
 */

static bool make_bucket(struct call *call) {
    bson_t opts = BSON_INITIALIZER;
    bool made = read_options(call, &call->target->options, "disableMD5", BUCKET, &opts);
    if (made) {
        call->bucket = mongoc_gridfs_bucket_new(call->database, &opts, call->prefs, &call->answer->error);
        made = call->bucket != NULL;
    }
    bson_destroy(&opts);
    return made;
}

/* Takes what an operation needs of the driver. What is made of a client works with that client. */
static bool take(struct call *call) {
    struct entity *target = call->target;
    bool has_own = target->session != NULL || target->cursor != NULL || target->stream != NULL;
    if (has_own || (target->database == NULL && target->client != target)) {
        return true;
    }
    call->client =
        call->session == NULL ? take_client(target->client, &call->answer->error) : call->session->kept;
    if (call->client == NULL) {
        return false;
    }
    if (target->database != NULL) {
        call->database = get_database(call->client, target);
    }
    if (target->collection != NULL) {
        call->collection = get_collection(call->client, target);
    }
    return strcmp(target->kind, "bucket") != 0 || make_bucket(call);
}

static void give_back(struct call *call) {
    mongoc_gridfs_bucket_destroy(call->bucket);
    mongoc_collection_destroy(call->collection);
    mongoc_database_destroy(call->database);
    mongoc_read_prefs_destroy(call->prefs);
    if (call->client != NULL && call->session == NULL) {
        mongoc_client_pool_push(call->target->client->pool, call->client);
    }
}

bool run_operation(struct call *call, const char *name) {
    const struct operation *operation = find_operation(call->target->kind, name);
    if (operation == NULL) {
        return refuse(call->answer, "no %s on a %s", name, call->target->kind);
    }
    bool done =
        read_options(call, &call->arguments, operation->positional, operation->options, &call->opts) &&
        take(call) && operation->run(call);
    give_back(call);
    return done;
}
