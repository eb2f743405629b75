/* What the files of the adapter share: see main.c for what each of them does. */
#ifndef ADAPTER_H
#define ADAPTER_H

#include <mongoc/mongoc.h>
#include <pthread.h>

/* One lock guards what requests share: entities, failures, callbacks and how many use a client. */
extern pthread_mutex_t lock;
extern pthread_cond_t changed;

/* What a scenario works with, by the id of the request that made it.
 *
 * A mongoc_client_t serves one thread at a time and has its own connections: an operation takes one from the
 * pool and gives it back. A session and a cursor belong to the one that made them, and keep it. */
struct entity {
    struct entity *next;
    int64_t id;
    const char *kind;      /* as requests name it: "client", "findCursor", ... */
    struct entity *client; /* whose pool it uses; itself for a client */

    mongoc_client_pool_t *pool; /* of a client */
    bool closed;
    int users;            /* the requests that work with the client */
    bson_t observed;      /* the kinds of events to report, as keys */
    const char *topology; /* the last type of the topology */
    char *primary;        /* its primary's address, or NULL */

    char *database; /* of a database, collection or bucket */
    char *collection;
    bson_t options;

    mongoc_client_t *kept; /* of the pool, by a session or a cursor; NULL where it is that of a session */
    mongoc_client_session_t *session; /* NULL once it was ended */
    bson_t lsid;
    mongoc_cursor_t *cursor; /* NULL once it was closed, as is a stream */
    mongoc_change_stream_t *stream;
    bson_t *first; /* what a cursor read when it was created, or NULL */
};

/* What came of a request. Where `done` is false, the driver failed, or `unsupported` says why it was not
 * asked. */
struct answer {
    bool done;
    bson_t result; /* its only field is "result"; empty stands for null */
    struct entity *made;
    bson_error_t error;
    bson_t reply; /* what the driver says of an error beside its text */
    char *unsupported;
};

/* An operation under way. What it needs of the driver is taken before it and given back after it. */
struct call {
    int64_t id;
    struct entity *target;
    struct entity *session; /* or NULL */
    bson_t arguments;
    bson_t opts;                /* the arguments that are options, as the driver takes them */
    mongoc_read_prefs_t *prefs; /* or NULL */
    mongoc_client_t *client;
    mongoc_database_t *database;
    mongoc_collection_t *collection;
    mongoc_gridfs_bucket_t *bucket;
    struct answer *answer;
};

/* main.c */
void report(int64_t client, const char *kind, const bson_t *fields);
bool run_callback(int64_t call, bson_error_t *error, bson_t **reply);
bool refuse(struct answer *answer, const char *format, ...) BSON_GNUC_PRINTF(2, 3);

/* entities.c */
struct entity *new_entity(const char *kind, struct entity *client);
struct entity *find_entity(int64_t id);
void add_entity(struct entity *entity, int64_t id);
void forget_entities(void);
bool use_client(struct entity *client, bson_error_t *error);
void leave_client(struct entity *client);
mongoc_client_t *take_client(struct entity *client, bson_error_t *error);
bool make_client(const bson_t *params, int64_t id, struct answer *answer);
bool make_entity(struct entity *parent, const char *kind, const bson_t *spec, struct answer *answer);
mongoc_database_t *get_database(mongoc_client_t *client, const struct entity *entity);
mongoc_collection_t *get_collection(mongoc_client_t *client, const struct entity *entity);
void end_session(struct entity *session);
void close_cursor(struct entity *cursor);
void close_client(struct entity *client);
void append_session(const struct entity *session, bson_t *result);
void append_topology(const struct entity *client, bson_t *result);

/* operations.c */
bool run_operation(struct call *call, const char *name);

/* arguments.c */
bool has_word(const char *words, const char *word);
bool get_document(const bson_t *from, const char *name, bson_t *view);
const char *get_text(const bson_t *from, const char *name);
int64_t get_integer(const bson_t *from, const char *name);
bool read_options(struct call *call, const bson_t *given, const char *positional, const char *allowed,
                  bson_t *opts);
mongoc_read_concern_t *read_concern_of(const bson_t *options);
mongoc_write_concern_t *write_concern_of(const bson_t *options);
mongoc_read_prefs_t *read_prefs_of(const bson_t *options);
mongoc_transaction_opt_t *transaction_opts_of(const bson_t *options);

/* words.c */
mongoc_apm_callbacks_t *new_callbacks(void);
void append_error(bson_t *message, const bson_error_t *error, const bson_t *reply);
void append_update(bson_t *result, const bson_t *reply);
void append_delete(bson_t *result, const bson_t *reply);
void append_insert(bson_t *result, const bson_t *reply);
void append_bulk(bson_t *result, const bson_t *reply);

#endif
