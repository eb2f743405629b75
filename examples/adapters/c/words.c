/* Events, errors and results in the words of the specifications. */
#include "adapter.h"

#include <string.h>

enum { NO_SERVER_CONNECTION_ID = -1 };

/* ---- Events ---------------------------------------------------------------------------------------------
 */

/* Reports an event that the scenario observes, and lets go of its fields. */
static void tell_event(void *context, const char *kind, bson_t *fields) {
    const struct entity *client = context;
    if (bson_has_field(&client->observed, kind)) {
        report(client->id, kind, fields);
    }
    bson_destroy(fields);
}

static void append_connection(bson_t *fields, const char *name, int64_t request,
                              const mongoc_host_list_t *host, const bson_oid_t *service, int64_t connection) {
    BSON_APPEND_UTF8(fields, "commandName", name);
    BSON_APPEND_INT64(fields, "requestId", request);
    BSON_APPEND_UTF8(fields, "connectionId", host->host_and_port);
    if (service != NULL) {
        BSON_APPEND_OID(fields, "serviceId", service);
    }
    if (connection != NO_SERVER_CONNECTION_ID) {
        BSON_APPEND_INT64(fields, "serverConnectionId", connection);
    }
}

static void append_duration(bson_t *fields, int64_t microseconds) {
    BSON_APPEND_DOUBLE(fields, "durationMS", (double)microseconds / 1e3);
}

static void command_started(const mongoc_apm_command_started_t *event) {
    bson_t fields = BSON_INITIALIZER;
    append_connection(&fields, mongoc_apm_command_started_get_command_name(event),
                      mongoc_apm_command_started_get_request_id(event),
                      mongoc_apm_command_started_get_host(event),
                      mongoc_apm_command_started_get_service_id(event),
                      mongoc_apm_command_started_get_server_connection_id(event));
    BSON_APPEND_UTF8(&fields, "databaseName", mongoc_apm_command_started_get_database_name(event));
    BSON_APPEND_DOCUMENT(&fields, "command", mongoc_apm_command_started_get_command(event));
    tell_event(mongoc_apm_command_started_get_context(event), "commandStartedEvent", &fields);
}

static void command_succeeded(const mongoc_apm_command_succeeded_t *event) {
    bson_t fields = BSON_INITIALIZER;
    append_connection(&fields, mongoc_apm_command_succeeded_get_command_name(event),
                      mongoc_apm_command_succeeded_get_request_id(event),
                      mongoc_apm_command_succeeded_get_host(event),
                      mongoc_apm_command_succeeded_get_service_id(event),
                      mongoc_apm_command_succeeded_get_server_connection_id(event));
    append_duration(&fields, mongoc_apm_command_succeeded_get_duration(event));
    BSON_APPEND_DOCUMENT(&fields, "reply", mongoc_apm_command_succeeded_get_reply(event));
    tell_event(mongoc_apm_command_succeeded_get_context(event), "commandSucceededEvent", &fields);
}

static void command_failed(const mongoc_apm_command_failed_t *event) {
    bson_t fields = BSON_INITIALIZER;
    bson_error_t error;
    mongoc_apm_command_failed_get_error(event, &error);
    append_connection(&fields, mongoc_apm_command_failed_get_command_name(event),
                      mongoc_apm_command_failed_get_request_id(event),
                      mongoc_apm_command_failed_get_host(event),
                      mongoc_apm_command_failed_get_service_id(event),
                      mongoc_apm_command_failed_get_server_connection_id(event));
    append_duration(&fields, mongoc_apm_command_failed_get_duration(event));
    BSON_APPEND_UTF8(&fields, "failure", error.message);
    tell_event(mongoc_apm_command_failed_get_context(event), "commandFailedEvent", &fields);
}

static void append_description(bson_t *fields, const char *name, const char *type) {
    bson_t description;
    bson_append_document_begin(fields, name, -1, &description);
    BSON_APPEND_UTF8(&description, "type", type);
    bson_append_document_end(fields, &description);
}

static void server_changed(const mongoc_apm_server_changed_t *event) {
    bson_t fields = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&fields, "address", mongoc_apm_server_changed_get_host(event)->host_and_port);
    append_description(
        &fields, "previousDescription",
        mongoc_server_description_type(mongoc_apm_server_changed_get_previous_description(event)));
    append_description(&fields, "newDescription",
                       mongoc_server_description_type(mongoc_apm_server_changed_get_new_description(event)));
    tell_event(mongoc_apm_server_changed_get_context(event), "serverDescriptionChangedEvent", &fields);
}

/* Keeps what the request `topology` asks for. The name of a type is a constant of the driver. */
static void keep_topology(struct entity *client, const mongoc_topology_description_t *description) {
    size_t count;
    mongoc_server_description_t **servers = mongoc_topology_description_get_servers(description, &count);
    pthread_mutex_lock(&lock);
    client->topology = mongoc_topology_description_type(description);
    bson_free(client->primary);
    client->primary = NULL;
    for (size_t index = 0; index < count; index++) {
        if (strcmp(mongoc_server_description_type(servers[index]), "RSPrimary") == 0) {
            client->primary = bson_strdup(mongoc_server_description_host(servers[index])->host_and_port);
        }
    }
    pthread_mutex_unlock(&lock);
    mongoc_server_descriptions_destroy_all(servers, count);
}

static void topology_changed(const mongoc_apm_topology_changed_t *event) {
    bson_t fields = BSON_INITIALIZER;
    const mongoc_topology_description_t *before = mongoc_apm_topology_changed_get_previous_description(event);
    const mongoc_topology_description_t *after = mongoc_apm_topology_changed_get_new_description(event);
    keep_topology(mongoc_apm_topology_changed_get_context(event), after);
    append_description(&fields, "previousDescription", mongoc_topology_description_type(before));
    append_description(&fields, "newDescription", mongoc_topology_description_type(after));
    tell_event(mongoc_apm_topology_changed_get_context(event), "topologyDescriptionChangedEvent", &fields);
}

static void server_opening(const mongoc_apm_server_opening_t *event) {
    bson_t fields = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&fields, "address", mongoc_apm_server_opening_get_host(event)->host_and_port);
    tell_event(mongoc_apm_server_opening_get_context(event), "serverOpeningEvent", &fields);
}

static void server_closed(const mongoc_apm_server_closed_t *event) {
    bson_t fields = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&fields, "address", mongoc_apm_server_closed_get_host(event)->host_and_port);
    tell_event(mongoc_apm_server_closed_get_context(event), "serverClosedEvent", &fields);
}

static void topology_opening(const mongoc_apm_topology_opening_t *event) {
    bson_t fields = BSON_INITIALIZER;
    tell_event(mongoc_apm_topology_opening_get_context(event), "topologyOpeningEvent", &fields);
}

static void topology_closed(const mongoc_apm_topology_closed_t *event) {
    bson_t fields = BSON_INITIALIZER;
    tell_event(mongoc_apm_topology_closed_get_context(event), "topologyClosedEvent", &fields);
}

static void append_heartbeat(bson_t *fields, const mongoc_host_list_t *host, bool awaited) {
    BSON_APPEND_UTF8(fields, "address", host->host_and_port);
    BSON_APPEND_BOOL(fields, "awaited", awaited);
}

static void heartbeat_started(const mongoc_apm_server_heartbeat_started_t *event) {
    bson_t fields = BSON_INITIALIZER;
    append_heartbeat(&fields, mongoc_apm_server_heartbeat_started_get_host(event),
                     mongoc_apm_server_heartbeat_started_get_awaited(event));
    tell_event(mongoc_apm_server_heartbeat_started_get_context(event), "serverHeartbeatStartedEvent",
               &fields);
}

static void heartbeat_succeeded(const mongoc_apm_server_heartbeat_succeeded_t *event) {
    bson_t fields = BSON_INITIALIZER;
    append_heartbeat(&fields, mongoc_apm_server_heartbeat_succeeded_get_host(event),
                     mongoc_apm_server_heartbeat_succeeded_get_awaited(event));
    append_duration(&fields, mongoc_apm_server_heartbeat_succeeded_get_duration(event));
    tell_event(mongoc_apm_server_heartbeat_succeeded_get_context(event), "serverHeartbeatSucceededEvent",
               &fields);
}

static void heartbeat_failed(const mongoc_apm_server_heartbeat_failed_t *event) {
    bson_t fields = BSON_INITIALIZER;
    append_heartbeat(&fields, mongoc_apm_server_heartbeat_failed_get_host(event),
                     mongoc_apm_server_heartbeat_failed_get_awaited(event));
    append_duration(&fields, mongoc_apm_server_heartbeat_failed_get_duration(event));
    tell_event(mongoc_apm_server_heartbeat_failed_get_context(event), "serverHeartbeatFailedEvent", &fields);
}

mongoc_apm_callbacks_t *new_callbacks(void) {
    mongoc_apm_callbacks_t *callbacks = mongoc_apm_callbacks_new();
    mongoc_apm_set_command_started_cb(callbacks, command_started);
    mongoc_apm_set_command_succeeded_cb(callbacks, command_succeeded);
    mongoc_apm_set_command_failed_cb(callbacks, command_failed);
    mongoc_apm_set_server_changed_cb(callbacks, server_changed);
    mongoc_apm_set_server_opening_cb(callbacks, server_opening);
    mongoc_apm_set_server_closed_cb(callbacks, server_closed);
    mongoc_apm_set_topology_changed_cb(callbacks, topology_changed);
    mongoc_apm_set_topology_opening_cb(callbacks, topology_opening);
    mongoc_apm_set_topology_closed_cb(callbacks, topology_closed);
    mongoc_apm_set_server_heartbeat_started_cb(callbacks, heartbeat_started);
    mongoc_apm_set_server_heartbeat_succeeded_cb(callbacks, heartbeat_succeeded);
    mongoc_apm_set_server_heartbeat_failed_cb(callbacks, heartbeat_failed);
    return callbacks;
}

/* ---- Errors ---------------------------------------------------------------------------------------------
 */

/* Says whether a reply tells what a write did before it failed. */
static bool is_partial(const bson_t *reply) {
    return bson_has_field(reply, "nInserted") || bson_has_field(reply, "insertedCount");
}

static void append_coded(bson_t *list, const char *key, const bson_t *each) {
    bson_t coded;
    bson_append_document_begin(list, key, -1, &coded);
    BSON_APPEND_INT32(&coded, "code", (int32_t)get_integer(each, "code"));
    BSON_APPEND_UTF8(&coded, "message", get_text(each, "errmsg") == NULL ? "" : get_text(each, "errmsg"));
    bson_append_document_end(list, &coded);
}

static void append_write_errors(bson_t *report, const bson_t *reply) {
    bson_t list, errors, error;
    bson_iter_t each;
    get_document(reply, "writeErrors", &list);
    bson_append_document_begin(report, "writeErrors", -1, &errors);
    bson_iter_init(&each, &list);
    while (bson_iter_next(&each)) {
        char buffer[16];
        const char *key;
        get_document(&list, bson_iter_key(&each), &error);
        bson_uint32_to_string((uint32_t)get_integer(&error, "index"), &key, buffer, sizeof buffer);
        append_coded(&errors, key, &error);
    }
    bson_append_document_end(report, &errors);
    get_document(reply, "writeConcernErrors", &list);
    bson_append_array_begin(report, "writeConcernErrors", -1, &errors);
    bson_iter_init(&each, &list);
    while (bson_iter_next(&each)) {
        get_document(&list, bson_iter_key(&each), &error);
        append_coded(&errors, bson_iter_key(&each), &error);
    }
    bson_append_array_end(report, &errors);
}

/* Reports an error in the words of expectError. It is the server's where the driver says so by its domain. */
void append_error(bson_t *message, const bson_error_t *error, const bson_t *reply) {
    bool from_server = error->domain == MONGOC_ERROR_SERVER || error->domain == MONGOC_ERROR_WRITE_CONCERN;
    bson_t report, labels;
    BSON_APPEND_DOCUMENT_BEGIN(message, "error", &report);
    BSON_APPEND_UTF8(&report, "message", error->message);
    BSON_APPEND_BOOL(&report, "isClientError", !from_server);
    get_document(reply, "errorLabels", &labels);
    BSON_APPEND_ARRAY(&report, "labels", &labels);
    if (from_server) {
        BSON_APPEND_INT32(&report, "code", (int32_t)error->code);
        if (get_text(reply, "codeName") != NULL) {
            BSON_APPEND_UTF8(&report, "codeName", get_text(reply, "codeName"));
        }
    }
    if (bson_has_field(reply, "ok")) {
        BSON_APPEND_DOCUMENT(&report, "response", reply);
    }
    if (is_partial(reply)) {
        append_bulk(&report, reply);
        append_write_errors(&report, reply);
    }
    bson_append_document_end(message, &report);
}

/* ---- Results --------------------------------------------------------------------------------------------
 */

static void append_count(bson_t *document, const char *name, int64_t count) {
    bson_append_int64(document, name, -1, count);
}

/* Begins the result of a write. The driver's reply to an unacknowledged one is empty. */
static bool begin_write(bson_t *result, const bson_t *reply, bson_t *document) {
    BSON_APPEND_DOCUMENT_BEGIN(result, "result", document);
    if (bson_empty(reply)) {
        BSON_APPEND_BOOL(document, "acknowledged", false);
    }
    return !bson_empty(reply);
}

void append_insert(bson_t *result, const bson_t *reply) {
    bson_t document; /* the driver does not return the ids of what it inserts */
    begin_write(result, reply, &document);
    bson_append_document_end(result, &document);
}

void append_update(bson_t *result, const bson_t *reply) {
    bson_t document;
    bson_iter_t id;
    if (begin_write(result, reply, &document)) {
        bool upserted = bson_iter_init_find(&id, reply, "upsertedId");
        append_count(&document, "matchedCount", get_integer(reply, "matchedCount"));
        append_count(&document, "modifiedCount", get_integer(reply, "modifiedCount"));
        append_count(&document, "upsertedCount", upserted);
        if (upserted) {
            bson_append_iter(&document, NULL, 0, &id);
        }
    }
    bson_append_document_end(result, &document);
}

void append_delete(bson_t *result, const bson_t *reply) {
    bson_t document;
    if (begin_write(result, reply, &document)) {
        append_count(&document, "deletedCount", get_integer(reply, "deletedCount"));
    }
    bson_append_document_end(result, &document);
}

static void append_upserted_ids(bson_t *document, const bson_t *reply) {
    bson_t list, upserted, ids;
    bson_iter_t each, id;
    get_document(reply, "upserted", &list);
    BSON_APPEND_DOCUMENT_BEGIN(document, "upsertedIds", &ids);
    bson_iter_init(&each, &list);
    while (bson_iter_next(&each)) {
        char buffer[16];
        const char *key;
        get_document(&list, bson_iter_key(&each), &upserted);
        bson_uint32_to_string((uint32_t)get_integer(&upserted, "index"), &key, buffer, sizeof buffer);
        bson_iter_init_find(&id, &upserted, "_id");
        bson_append_iter(&ids, key, -1, &id);
    }
    bson_append_document_end(document, &ids);
}

void append_bulk(bson_t *result, const bson_t *reply) {
    bson_t document;
    if (begin_write(result, reply, &document)) {
        bool bulk = bson_has_field(reply, "nInserted");
        append_count(&document, "insertedCount", get_integer(reply, bulk ? "nInserted" : "insertedCount"));
        append_count(&document, "matchedCount", get_integer(reply, "nMatched"));
        append_count(&document, "modifiedCount", get_integer(reply, "nModified"));
        append_count(&document, "deletedCount", get_integer(reply, "nRemoved"));
        append_count(&document, "upsertedCount", get_integer(reply, "nUpserted"));
        append_upserted_ids(&document, reply);
    }
    bson_append_document_end(result, &document);
}
