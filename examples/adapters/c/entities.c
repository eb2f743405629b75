/* What scenarios work with: clients, each a pool of the driver, and what is made of them. */
#include "adapter.h"

#include <string.h>
#include <time.h>

enum { CLOSE_SECONDS = 4, SHORTEST_HEARTBEAT_MS = 500 };

/* Options of a URI beside those that the driver names by the type of their value. */
static const char other_options[] =
    "w readConcernLevel readPreferenceTags compressors authSource authMechanism "
    "authMechanismProperties";

/* Options that the driver reads and passes over: a scenario would seem to hold, or to fail, without reason.
 */
static const char ignored_options[] = "minPoolSize maxIdleTimeMS waitQueueMultiple";

static struct entity *entities;

struct entity *new_entity(const char *kind, struct entity *client) {
    struct entity *entity = bson_malloc0(sizeof *entity);
    entity->kind = kind;
    entity->client = client == NULL ? entity : client;
    bson_init(&entity->observed);
    bson_init(&entity->options);
    bson_init(&entity->lsid);
    return entity;
}

void add_entity(struct entity *entity, int64_t id) {
    pthread_mutex_lock(&lock);
    entity->id = id;
    entity->next = entities;
    entities = entity;
    pthread_mutex_unlock(&lock);
}

struct entity *find_entity(int64_t id) {
    pthread_mutex_lock(&lock);
    struct entity *entity = entities;
    while (entity != NULL && entity->id != id) {
        entity = entity->next;
    }
    pthread_mutex_unlock(&lock);
    BSON_ASSERT(entity != NULL);
    return entity;
}

/* ---- Clients --------------------------------------------------------------------------------------------
 */

/* Counts a request that works with a client: false where it was closed. */
bool use_client(struct entity *client, bson_error_t *error) {
    pthread_mutex_lock(&lock);
    bool open = !client->closed;
    client->users += open;
    pthread_mutex_unlock(&lock);
    if (!open) {
        bson_set_error(error, MONGOC_ERROR_CLIENT, MONGOC_ERROR_CLIENT_NOT_READY, "the client was closed");
    }
    return open;
}

void leave_client(struct entity *client) {
    pthread_mutex_lock(&lock);
    client->users--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Takes a client from the pool; the driver says by NULL that waitQueueTimeoutMS has passed. */
mongoc_client_t *take_client(struct entity *client, bson_error_t *error) {
    mongoc_client_t *taken = mongoc_client_pool_pop(client->pool);
    if (taken == NULL) {
        bson_set_error(error, MONGOC_ERROR_POOL, 0, "no client of the pool within waitQueueTimeoutMS");
    }
    return taken;
}

static bool has_options(const bson_t *params, struct answer *answer) {
    bson_t options;
    bson_iter_t each;
    get_document(params, "options", &options);
    bson_iter_init(&each, &options);
    while (bson_iter_next(&each)) {
        const char *name = bson_iter_key(&each);
        bool known = mongoc_uri_option_is_int32(name) || mongoc_uri_option_is_bool(name) ||
                     mongoc_uri_option_is_utf8(name) || has_word(other_options, name);
        if (!known || has_word(ignored_options, name)) {
            return refuse(answer, "the driver has no option %s", name);
        }
        if (strcasecmp(name, MONGOC_URI_HEARTBEATFREQUENCYMS) == 0 &&
            bson_iter_as_int64(&each) < SHORTEST_HEARTBEAT_MS) {
            return refuse(answer, "the driver takes no heartbeatFrequencyMS below %d", SHORTEST_HEARTBEAT_MS);
        }
    }
    return true;
}

static bool set_server_api(mongoc_client_pool_t *pool, const bson_t *params, struct answer *answer) {
    bson_t given;
    bson_iter_t each;
    mongoc_server_api_version_t version;
    if (!get_document(params, "serverApi", &given)) {
        return true;
    }
    if (!mongoc_server_api_version_from_string(get_text(&given, "version"), &version)) {
        return refuse(answer, "no server API %s", get_text(&given, "version"));
    }
    mongoc_server_api_t *api = mongoc_server_api_new(version);
    if (bson_iter_init_find(&each, &given, "strict")) {
        mongoc_server_api_strict(api, bson_iter_as_bool(&each));
    }
    if (bson_iter_init_find(&each, &given, "deprecationErrors")) {
        mongoc_server_api_deprecation_errors(api, bson_iter_as_bool(&each));
    }
    bool set = mongoc_client_pool_set_server_api(pool, api, &answer->error);
    mongoc_server_api_destroy(api);
    return set;
}

static void observe(struct entity *client, const bson_t *params) {
    bson_t kinds;
    bson_iter_t each;
    get_document(params, "observeEvents", &kinds);
    bson_iter_init(&each, &kinds);
    while (bson_iter_next(&each)) {
        BSON_APPEND_BOOL(&client->observed, bson_iter_utf8(&each, NULL), true);
    }
    mongoc_apm_callbacks_t *callbacks = new_callbacks();
    mongoc_client_pool_set_apm_callbacks(client->pool, callbacks, client);
    mongoc_apm_callbacks_destroy(callbacks);
}

/* Makes a pool, and has it begin to monitor. Events may come before the answer. */
bool make_client(const bson_t *params, int64_t id, struct answer *answer) {
    if (!has_options(params, answer)) {
        return false;
    }
    mongoc_uri_t *uri = mongoc_uri_new_with_error(get_text(params, "uri"), &answer->error);
    if (uri == NULL) {
        return false;
    }
    mongoc_client_pool_t *pool = mongoc_client_pool_new_with_error(uri, &answer->error);
    mongoc_uri_destroy(uri);
    if (pool == NULL) {
        return false;
    }
    mongoc_client_pool_set_error_api(pool, MONGOC_ERROR_API_VERSION_2);
    if (!set_server_api(pool, params, answer)) {
        mongoc_client_pool_destroy(pool);
        return false;
    }
    struct entity *client = new_entity("client", NULL);
    client->id = id;
    client->pool = pool;
    client->topology = "Unknown";
    observe(client, params);
    mongoc_client_pool_push(pool, mongoc_client_pool_pop(pool));
    answer->made = client;
    return true;
}

void append_topology(const struct entity *client, bson_t *result) {
    bson_t report;
    BSON_APPEND_DOCUMENT_BEGIN(result, "result", &report);
    pthread_mutex_lock(&lock);
    BSON_APPEND_UTF8(&report, "type", client->topology);
    if (client->primary == NULL) {
        BSON_APPEND_NULL(&report, "primary");
    } else {
        BSON_APPEND_UTF8(&report, "primary", client->primary);
    }
    pthread_mutex_unlock(&lock);
    bson_append_document_end(result, &report);
}

/* Waits until no request works with a client any more: the driver has no way to interrupt one. */
static bool is_idle(const struct entity *client) {
    struct timespec end;
    int late = 0;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += CLOSE_SECONDS;
    while (client->users > 0 && late == 0) {
        late = pthread_cond_timedwait(&changed, &lock, &end);
    }
    return client->users == 0;
}

/* Closes a client, once: a second time is no error of a scenario. A client that is still at work is left. */
void close_client(struct entity *client) {
    pthread_mutex_lock(&lock);
    bool open = !client->closed;
    client->closed = true;
    bool idle = open && is_idle(client);
    struct entity *first = entities;
    pthread_mutex_unlock(&lock);
    if (!idle) {
        return;
    }
    for (struct entity *each = first; each != NULL; each = each->next) {
        if (each->client == client) {
            close_cursor(each);
        }
    }
    for (struct entity *each = first; each != NULL; each = each->next) {
        if (each->client == client) {
            end_session(each);
        }
    }
    mongoc_client_pool_destroy(client->pool);
}

static void *close_aside(void *client) {
    close_client(client);
    return NULL;
}

static void free_entity(struct entity *entity) {
    bson_destroy(&entity->observed);
    bson_destroy(&entity->options);
    bson_destroy(&entity->lsid);
    bson_free(entity->primary);
    bson_free(entity->database);
    bson_free(entity->collection);
    bson_free(entity);
}

/* Closes all clients at once, and forgets what was made. */
void forget_entities(void) {
    pthread_t closing[256];
    size_t count = 0;
    for (struct entity *each = entities; each != NULL; each = each->next) {
        if (each->client != each) {
            continue;
        }
        if (count == sizeof closing / sizeof *closing ||
            pthread_create(&closing[count], NULL, close_aside, each) != 0) {
            close_client(each);
        } else {
            count++;
        }
    }
    while (count > 0) {
        pthread_join(closing[--count], NULL);
    }
    pthread_mutex_lock(&lock);
    struct entity *rest = entities;
    entities = NULL;
    pthread_mutex_unlock(&lock);
    while (rest != NULL) {
        struct entity *next = rest->next;
        if (rest->client->users == 0) {
            free_entity(rest);
        }
        rest = next;
    }
}

/* ---- Databases, collections and buckets -----------------------------------------------------------------
 */

static bool keep_options(struct entity *entity, const bson_t *given, const char *allowed,
                         struct answer *answer) {
    bson_iter_t each;
    bson_iter_init(&each, given);
    while (bson_iter_next(&each)) {
        if (!has_word(allowed, bson_iter_key(&each))) {
            return refuse(answer, "a %s of the driver has no %s", entity->kind, bson_iter_key(&each));
        }
    }
    bson_concat(&entity->options, given);
    return true;
}

mongoc_database_t *get_database(mongoc_client_t *client, const struct entity *entity) {
    mongoc_database_t *database = mongoc_client_get_database(client, entity->database);
    mongoc_read_concern_t *read_concern = read_concern_of(&entity->options);
    mongoc_write_concern_t *write_concern = write_concern_of(&entity->options);
    mongoc_read_prefs_t *prefs = read_prefs_of(&entity->options);
    if (read_concern != NULL) {
        mongoc_database_set_read_concern(database, read_concern);
    }
    if (write_concern != NULL) {
        mongoc_database_set_write_concern(database, write_concern);
    }
    if (prefs != NULL) {
        mongoc_database_set_read_prefs(database, prefs);
    }
    mongoc_read_concern_destroy(read_concern);
    mongoc_write_concern_destroy(write_concern);
    mongoc_read_prefs_destroy(prefs);
    return database;
}

/* A collection has the options of its database and then its own, which were put together when it was made. */
mongoc_collection_t *get_collection(mongoc_client_t *client, const struct entity *entity) {
    mongoc_database_t *database = get_database(client, entity);
    mongoc_collection_t *collection = mongoc_database_get_collection(database, entity->collection);
    mongoc_database_destroy(database);
    return collection;
}

static void inherit_options(struct entity *entity, const struct entity *database) {
    bson_iter_t each;
    bson_iter_init(&each, &database->options);
    while (bson_iter_next(&each)) {
        if (!bson_has_field(&entity->options, bson_iter_key(&each))) {
            bson_append_iter(&entity->options, NULL, 0, &each);
        }
    }
}

/* ---- Sessions and cursors -------------------------------------------------------------------------------
 */

static mongoc_session_opt_t *session_opts_of(const bson_t *given) {
    bson_t defaults;
    bson_iter_t each;
    mongoc_session_opt_t *opts = mongoc_session_opts_new();
    if (bson_iter_init_find(&each, given, "causalConsistency")) {
        mongoc_session_opts_set_causal_consistency(opts, bson_iter_as_bool(&each));
    }
    if (bson_iter_init_find(&each, given, "snapshot")) {
        mongoc_session_opts_set_snapshot(opts, bson_iter_as_bool(&each));
    }
    if (get_document(given, "defaultTransactionOptions", &defaults)) {
        mongoc_transaction_opt_t *transaction = transaction_opts_of(&defaults);
        mongoc_session_opts_set_default_transaction_opts(opts, transaction);
        mongoc_transaction_opts_destroy(transaction);
    }
    return opts;
}

static bool start_session(struct entity *session, const bson_t *given, struct answer *answer) {
    if (!use_client(session->client, &answer->error)) {
        return false;
    }
    session->kept = take_client(session->client, &answer->error);
    if (session->kept != NULL) {
        mongoc_session_opt_t *opts = session_opts_of(given);
        session->session = mongoc_client_start_session(session->kept, opts, &answer->error);
        mongoc_session_opts_destroy(opts);
        if (session->session == NULL) {
            mongoc_client_pool_push(session->client->pool, session->kept);
        } else {
            bson_concat(&session->lsid, mongoc_client_session_get_lsid(session->session));
        }
    }
    leave_client(session->client);
    return session->session != NULL;
}

static void give_back(struct entity *entity) {
    if (entity->kept != NULL) {
        mongoc_client_pool_push(entity->client->pool, entity->kept);
        entity->kept = NULL;
    }
}

void end_session(struct entity *session) {
    if (session->session != NULL) {
        mongoc_client_session_destroy(session->session);
        session->session = NULL;
        give_back(session);
    }
}

void close_cursor(struct entity *cursor) {
    if (cursor->cursor != NULL || cursor->stream != NULL) {
        mongoc_cursor_destroy(cursor->cursor);
        if (cursor->stream != NULL) {
            mongoc_change_stream_destroy(cursor->stream);
        }
        bson_destroy(cursor->first);
        cursor->cursor = NULL;
        cursor->stream = NULL;
        cursor->first = NULL;
        give_back(cursor);
    }
}

static void append_pinned(const struct entity *session, bson_t *report) {
    uint32_t server = session->session == NULL ? 0 : mongoc_client_session_get_server_id(session->session);
    mongoc_server_description_t *description =
        server == 0 ? NULL : mongoc_client_get_server_description(session->kept, server);
    if (description == NULL) {
        BSON_APPEND_NULL(report, "pinned");
    } else {
        BSON_APPEND_UTF8(report, "pinned", mongoc_server_description_host(description)->host_and_port);
        mongoc_server_description_destroy(description);
    }
}

void append_session(const struct entity *session, bson_t *result) {
    static const char *const states[] = {"none", "starting", "in_progress", "committed", "aborted"};
    mongoc_client_session_t *open = session->session;
    bson_t report;
    BSON_APPEND_DOCUMENT_BEGIN(result, "result", &report);
    BSON_APPEND_DOCUMENT(&report, "lsid", &session->lsid);
    BSON_APPEND_BOOL(&report, "dirty", open != NULL && mongoc_client_session_get_dirty(open));
    append_pinned(session, &report);
    BSON_APPEND_UTF8(&report, "transaction",
                     states[open == NULL ? 0 : mongoc_client_session_get_transaction_state(open)]);
    bson_append_document_end(result, &report);
}

/* ---- Creation -------------------------------------------------------------------------------------------
 */

bool make_entity(struct entity *parent, const char *kind, const bson_t *spec, struct answer *answer) {
    static const struct {
        const char *kind, *options, *allowed;
    } kinds[] = {
        {"database", "databaseOptions", "readConcern writeConcern readPreference"},
        {"collection", "collectionOptions", "readConcern writeConcern readPreference"},
        {"bucket", "bucketOptions",
         "readConcern writeConcern readPreference bucketName chunkSizeBytes disableMD5"},
        {"session", "sessionOptions", "causalConsistency snapshot defaultTransactionOptions"},
    };
    size_t index = 0;
    while (index < sizeof kinds / sizeof *kinds && strcmp(kinds[index].kind, kind) != 0) {
        index++;
    }
    if (index == sizeof kinds / sizeof *kinds) {
        return refuse(answer, "no entity %s", kind);
    }
    bson_t given;
    get_document(spec, kinds[index].options, &given);
    struct entity *entity = new_entity(kinds[index].kind, parent->client);
    bool made = keep_options(entity, &given, kinds[index].allowed, answer);
    if (made && strcmp(kind, "session") == 0) {
        made = start_session(entity, &given, answer);
    }
    if (!made) {
        free_entity(entity);
        return false;
    }
    if (parent->database != NULL) {
        inherit_options(entity, parent);
        entity->database = bson_strdup(parent->database);
    } else {
        entity->database = bson_strdup(get_text(spec, "databaseName"));
    }
    entity->collection = bson_strdup(get_text(spec, "collectionName"));
    answer->made = entity;
    return true;
}
