/* The C driver as an adapter of pushbackd: requests come in and answers go out, one JSON document a line.
 *
 *     make
 *     pushbackd conform SCENARIOS --adapter "cmd:./c-adapter"
 *
 * This file speaks the protocol (docs/WRITING-ADAPTERS.md); entities.c makes what a scenario works with,
 * operations.c does what it asks for, with the arguments of arguments.c, and words.c says what came of it in
 * the words of the specifications. */
#include "adapter.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROTOCOL = 1 };

/* What the driver can do. It has no pool events, no structured log messages and no timeoutMS. */
static const char *const features[] = {
    "COMMAND_EVENTS", "SDAM_EVENTS", "SESSIONS",     "TRANSACTIONS",    "CHANGE_STREAMS",
    "GRIDFS",         "SERVER_API",  "FIND_CURSORS", "COMMAND_CURSORS",
};

struct request {
    bson_t *line;
    int64_t id;
    const char *method;
    int64_t on;
    bson_t params;
};

/* An error of the driver, by the id of its request: a callback may fail with it. */
struct failure {
    struct failure *next;
    int64_t id;
    bson_error_t error;
    bson_t *reply;
};

/* A transaction's callback that the runner runs. */
struct callback {
    struct callback *next;
    int64_t call;
    bool returned;
    bool failed;
    int64_t failure; /* the id of the request that failed, 0 for an error of the scenario */
};

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;
static struct failure *failures;
static struct callback *callbacks;
static int serving; /* the requests without an answer */

/* Returns the seconds of a clock that nobody sets. */
static double now(void) { return (double)bson_get_monotonic_time() / 1e6; }

/* Writes a message. Its sender holds `output`, so that times are in the order of the lines. */
static void tell(const bson_t *message) {
    char *line = bson_as_canonical_extended_json(message, NULL);
    if (line == NULL) {
        fputs("an answer that is no UTF-8\n", stderr);
        exit(EXIT_FAILURE);
    }
    puts(line);
    fflush(stdout);
    bson_free(line);
}

void report(int64_t client, const char *kind, const bson_t *fields) {
    bson_t message = BSON_INITIALIZER;
    bson_t event;
    pthread_mutex_lock(&output);
    BSON_APPEND_DOCUMENT_BEGIN(&message, "event", &event);
    BSON_APPEND_INT64(&event, "client", client);
    BSON_APPEND_UTF8(&event, "kind", kind);
    BSON_APPEND_DOUBLE(&event, "at", now());
    BSON_APPEND_DOCUMENT(&event, "fields", fields);
    bson_append_document_end(&message, &event);
    tell(&message);
    pthread_mutex_unlock(&output);
    bson_destroy(&message);
}

bool refuse(struct answer *answer, const char *format, ...) {
    va_list arguments;
    bson_free(answer->unsupported);
    va_start(arguments, format);
    answer->unsupported = bson_strdupv_printf(format, arguments);
    va_end(arguments);
    return false;
}

/* ---- Callbacks of transactions --------------------------------------------------------------------------
 */

/* Has the runner run a callback, and waits for its end. Its error is the driver's own again. */
bool run_callback(int64_t call, bson_error_t *error, bson_t **reply) {
    struct callback callback = {.call = call};
    bson_t message = BSON_INITIALIZER;
    BSON_APPEND_INT64(&message, "callback", call);
    pthread_mutex_lock(&lock);
    callback.next = callbacks;
    callbacks = &callback;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&output);
    tell(&message);
    pthread_mutex_unlock(&output);
    bson_destroy(&message);

    pthread_mutex_lock(&lock);
    while (!callback.returned) {
        pthread_cond_wait(&changed, &lock);
    }
    struct callback **link = &callbacks;
    while (*link != &callback) {
        link = &(*link)->next;
    }
    *link = callback.next;
    bson_set_error(error, MONGOC_ERROR_CLIENT, 0, "the scenario failed");
    for (const struct failure *each = failures; callback.failed && each != NULL; each = each->next) {
        if (each->id == callback.failure) {
            *error = each->error;
            *reply = bson_copy(each->reply);
        }
    }
    pthread_mutex_unlock(&lock);
    return !callback.failed;
}

static bool end_callback(const struct request *request, struct answer *answer) {
    bool found = false;
    pthread_mutex_lock(&lock);
    for (struct callback *each = callbacks; each != NULL; each = each->next) {
        if (each->call == request->on) {
            found = each->returned = true;
            each->failed = bson_has_field(&request->params, "error");
            each->failure = get_integer(&request->params, "error");
        }
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return found || refuse(answer, "no callback of %" PRId64 " runs", request->on);
}

static void keep_failure(int64_t id, const struct answer *answer) {
    struct failure *kept = bson_malloc0(sizeof *kept);
    kept->id = id;
    kept->error = answer->error;
    kept->reply = bson_copy(&answer->reply);
    pthread_mutex_lock(&lock);
    kept->next = failures;
    failures = kept;
    pthread_mutex_unlock(&lock);
}

/* ---- Methods --------------------------------------------------------------------------------------------
 */

static bool hello(const struct request *request, struct answer *answer) {
    (void)request;
    bson_t result, driver, list;
    BSON_APPEND_DOCUMENT_BEGIN(&answer->result, "result", &result);
    BSON_APPEND_INT32(&result, "protocol", PROTOCOL);
    BSON_APPEND_UTF8(&result, "name", "c");
    BSON_APPEND_DOCUMENT_BEGIN(&result, "driver", &driver);
    BSON_APPEND_UTF8(&driver, "name", "mongoc");
    BSON_APPEND_UTF8(&driver, "version", mongoc_get_version());
    bson_append_document_end(&result, &driver);
    BSON_APPEND_ARRAY_BEGIN(&result, "features", &list);
    for (uint32_t index = 0; index < sizeof features / sizeof *features; index++) {
        char buffer[16];
        const char *key;
        bson_uint32_to_string(index, &key, buffer, sizeof buffer);
        BSON_APPEND_UTF8(&list, key, features[index]);
    }
    bson_append_array_end(&result, &list);
    bson_append_document_end(&answer->result, &result);
    return true;
}

static bool client(const struct request *request, struct answer *answer) {
    return make_client(&request->params, request->id, answer);
}

static bool create(const struct request *request, struct answer *answer) {
    bson_t spec;
    get_document(&request->params, "spec", &spec);
    return make_entity(find_entity(request->on), get_text(&request->params, "kind"), &spec, answer);
}

static bool call(const struct request *request, struct answer *answer) {
    struct call call = {.id = request->id, .target = find_entity(request->on), .answer = answer};
    get_document(&request->params, "arguments", &call.arguments);
    if (bson_has_field(&call.arguments, "session")) {
        call.session = find_entity(get_integer(&call.arguments, "session"));
    }
    if (!use_client(call.target->client, &answer->error)) {
        return false;
    }
    bson_init(&call.opts);
    bool done = run_operation(&call, get_text(&request->params, "operation"));
    bson_destroy(&call.opts);
    leave_client(call.target->client);
    return done;
}

static bool session(const struct request *request, struct answer *answer) {
    append_session(find_entity(request->on), &answer->result);
    return true;
}

static bool advance_cluster_time(const struct request *request, struct answer *answer) {
    (void)answer;
    bson_t time;
    get_document(&request->params, "clusterTime", &time);
    mongoc_client_session_t *session = find_entity(request->on)->session;
    if (session != NULL) {
        mongoc_client_session_advance_cluster_time(session, &time);
    }
    return true;
}

static bool topology(const struct request *request, struct answer *answer) {
    append_topology(find_entity(request->on), &answer->result);
    return true;
}

static bool close_one(const struct request *request, struct answer *answer) {
    (void)answer;
    close_client(find_entity(request->on));
    return true;
}

static bool close_all(const struct request *request, struct answer *answer) {
    (void)request;
    (void)answer;
    forget_entities();
    pthread_mutex_lock(&lock);
    while (failures != NULL) {
        struct failure *next = failures->next;
        bson_destroy(failures->reply);
        bson_free(failures);
        failures = next;
    }
    pthread_mutex_unlock(&lock);
    return true;
}

static const struct {
    const char *name;
    bool (*run)(const struct request *request, struct answer *answer);
} methods[] = {
    {"hello", hello},
    {"client", client},
    {"create", create},
    {"call", call},
    {"return", end_callback},
    {"session", session},
    {"advanceClusterTime", advance_cluster_time},
    {"topology", topology},
    {"closeClient", close_one},
    {"close", close_all},
};

/* ---- Requests and answers -------------------------------------------------------------------------------
 */

static bool run_method(const struct request *request, struct answer *answer) {
    for (size_t index = 0; index < sizeof methods / sizeof *methods; index++) {
        if (strcmp(methods[index].name, request->method) == 0) {
            return methods[index].run(request, answer);
        }
    }
    return refuse(answer, "no method %s", request->method);
}

static void tell_answer(int64_t id, const struct answer *answer) {
    bson_t message = BSON_INITIALIZER;
    BSON_APPEND_INT64(&message, "id", id);
    if (answer->unsupported != NULL) {
        BSON_APPEND_UTF8(&message, "unsupported", answer->unsupported);
    } else if (!answer->done) {
        append_error(&message, &answer->error, &answer->reply);
    } else if (answer->made != NULL) {
        BSON_APPEND_BOOL(&message, "entity", true);
    } else if (bson_empty(&answer->result)) {
        BSON_APPEND_NULL(&message, "result");
    } else {
        bson_concat(&message, &answer->result);
    }
    pthread_mutex_lock(&output);
    BSON_APPEND_DOUBLE(&message, "clock", now());
    tell(&message);
    pthread_mutex_unlock(&output);
    bson_destroy(&message);
}

static void *serve(void *given) {
    struct request *request = given;
    struct answer answer = {.done = false};
    bson_init(&answer.result);
    bson_init(&answer.reply);
    answer.done = run_method(request, &answer);
    if (answer.made != NULL) {
        add_entity(answer.made, request->id);
    }
    if (!answer.done && answer.unsupported == NULL) {
        keep_failure(request->id, &answer);
    }
    tell_answer(request->id, &answer);
    bson_destroy(&answer.result);
    bson_destroy(&answer.reply);
    bson_free(answer.unsupported);
    bson_destroy(request->line);
    bson_free(request);
    pthread_mutex_lock(&lock);
    serving--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static struct request *read_request(const char *text, size_t length) {
    bson_error_t error;
    struct request *request = bson_malloc0(sizeof *request);
    request->line = bson_new_from_json((const uint8_t *)text, (ssize_t)length, &error);
    if (request->line == NULL) {
        fprintf(stderr, "a line that is no request: %s\n", error.message);
        exit(EXIT_FAILURE);
    }
    request->id = get_integer(request->line, "id");
    request->method = get_text(request->line, "method");
    request->on = get_integer(request->line, "on");
    get_document(request->line, "params", &request->params);
    return request;
}

/* Scenarios have threads: a request may wait while others are served. */
static void start(struct request *request) {
    pthread_t thread;
    pthread_mutex_lock(&lock);
    serving++;
    pthread_mutex_unlock(&lock);
    if (pthread_create(&thread, NULL, serve, request) != 0) {
        perror("no thread for a request");
        exit(EXIT_FAILURE);
    }
    pthread_detach(thread);
}

/* Standard output is for messages: the driver's own handler writes some of its log there. */
static void log_to_stderr(mongoc_log_level_t level, const char *domain, const char *text, void *context) {
    (void)context;
    fprintf(stderr, "%s %s: %s\n", mongoc_log_level_str(level), domain, text);
}

int main(void) {
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    mongoc_init();
    mongoc_log_set_handler(log_to_stderr, NULL);
    while ((length = getline(&line, &size, stdin)) > 0) {
        start(read_request(line, (size_t)length));
    }
    free(line);
    pthread_mutex_lock(&lock);
    while (serving > 0) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    mongoc_cleanup();
    return EXIT_SUCCESS;
}
