/* Arguments of scenarios, and options as the driver takes them. */
#include "adapter.h"

#include <string.h>

/* Says whether a word is in a list of words between spaces, in whatever case: options of a URI have none. */
bool has_word(const char *words, const char *word) {
    size_t length = strlen(word);
    while (*words != '\0') {
        size_t next = strcspn(words, " ");
        if (next == length && strncasecmp(words, word, length) == 0) {
            return true;
        }
        words += next + (words[next] == ' ');
    }
    return false;
}

/* Shows a document or an array within another: an empty one where there is none, or another value. */
bool get_document(const bson_t *from, const char *name, bson_t *view) {
    static const uint8_t empty[] = {5, 0, 0, 0, 0};
    bson_iter_t found;
    const uint8_t *data = empty;
    uint32_t length = sizeof empty;
    bool there = bson_iter_init_find(&found, from, name);
    if (there && BSON_ITER_HOLDS_DOCUMENT(&found)) {
        bson_iter_document(&found, &length, &data);
    } else if (there && BSON_ITER_HOLDS_ARRAY(&found)) {
        bson_iter_array(&found, &length, &data);
    } else {
        there = false;
    }
    return bson_init_static(view, data, length) && there;
}

const char *get_text(const bson_t *from, const char *name) {
    bson_iter_t found;
    bool there = bson_iter_init_find(&found, from, name) && BSON_ITER_HOLDS_UTF8(&found);
    return there ? bson_iter_utf8(&found, NULL) : NULL;
}

int64_t get_integer(const bson_t *from, const char *name) {
    bson_iter_t found;
    return bson_iter_init_find(&found, from, name) ? bson_iter_as_int64(&found) : 0;
}

/* ---- Concerns and preferences ---------------------------------------------------------------------------
 */

mongoc_read_concern_t *read_concern_of(const bson_t *options) {
    bson_t given;
    if (!get_document(options, "readConcern", &given)) {
        return NULL;
    }
    mongoc_read_concern_t *concern = mongoc_read_concern_new();
    if (get_text(&given, "level") != NULL) {
        mongoc_read_concern_set_level(concern, get_text(&given, "level"));
    }
    return concern;
}

mongoc_write_concern_t *write_concern_of(const bson_t *options) {
    bson_t given;
    bson_iter_t each;
    if (!get_document(options, "writeConcern", &given)) {
        return NULL;
    }
    mongoc_write_concern_t *concern = mongoc_write_concern_new();
    if (get_text(&given, "w") != NULL) {
        mongoc_write_concern_set_wtag(concern, get_text(&given, "w"));
    } else if (bson_has_field(&given, "w")) {
        mongoc_write_concern_set_w(concern, (int32_t)get_integer(&given, "w"));
    }
    if (bson_iter_init_find(&each, &given, "journal")) {
        mongoc_write_concern_set_journal(concern, bson_iter_as_bool(&each));
    }
    if (bson_has_field(&given, "wtimeoutMS")) {
        mongoc_write_concern_set_wtimeout_int64(concern, get_integer(&given, "wtimeoutMS"));
    }
    return concern;
}

mongoc_read_prefs_t *read_prefs_of(const bson_t *options) {
    static const struct {
        const char *name;
        mongoc_read_mode_t mode;
    } modes[] = {
        {"primary", MONGOC_READ_PRIMARY},     {"primaryPreferred", MONGOC_READ_PRIMARY_PREFERRED},
        {"secondary", MONGOC_READ_SECONDARY}, {"secondaryPreferred", MONGOC_READ_SECONDARY_PREFERRED},
        {"nearest", MONGOC_READ_NEAREST},
    };
    bson_t given, part;
    if (!get_document(options, "readPreference", &given)) {
        return NULL;
    }
    mongoc_read_prefs_t *prefs = mongoc_read_prefs_new(MONGOC_READ_PRIMARY);
    for (size_t index = 0; index < sizeof modes / sizeof *modes; index++) {
        if (strcasecmp(modes[index].name, get_text(&given, "mode")) == 0) {
            mongoc_read_prefs_set_mode(prefs, modes[index].mode);
        }
    }
    if (get_document(&given, "tagSets", &part)) {
        mongoc_read_prefs_set_tags(prefs, &part);
    }
    if (get_document(&given, "hedge", &part)) {
        mongoc_read_prefs_set_hedge(prefs, &part);
    }
    if (bson_has_field(&given, "maxStalenessSeconds")) {
        mongoc_read_prefs_set_max_staleness_seconds(prefs, get_integer(&given, "maxStalenessSeconds"));
    }
    return prefs;
}

mongoc_transaction_opt_t *transaction_opts_of(const bson_t *options) {
    mongoc_transaction_opt_t *opts = mongoc_transaction_opts_new();
    mongoc_read_concern_t *read_concern = read_concern_of(options);
    mongoc_write_concern_t *write_concern = write_concern_of(options);
    mongoc_read_prefs_t *prefs = read_prefs_of(options);
    if (read_concern != NULL) {
        mongoc_transaction_opts_set_read_concern(opts, read_concern);
    }
    if (write_concern != NULL) {
        mongoc_transaction_opts_set_write_concern(opts, write_concern);
    }
    if (prefs != NULL) {
        mongoc_transaction_opts_set_read_prefs(opts, prefs);
    }
    if (bson_has_field(options, "maxCommitTimeMS")) {
        mongoc_transaction_opts_set_max_commit_time_ms(opts, get_integer(options, "maxCommitTimeMS"));
    }
    mongoc_read_concern_destroy(read_concern);
    mongoc_write_concern_destroy(write_concern);
    mongoc_read_prefs_destroy(prefs);
    return opts;
}

/* ---- Options of an operation ----------------------------------------------------------------------------
 */

static bool append_session_id(const struct entity *session, bson_t *opts, struct answer *answer) {
    if (session->session == NULL) {
        bson_set_error(&answer->error, MONGOC_ERROR_CLIENT, MONGOC_ERROR_CLIENT_SESSION_FAILURE,
                       "the session was ended");
        return false;
    }
    return mongoc_client_session_append(session->session, opts, &answer->error);
}

static void append_cursor_type(const char *type, bson_t *opts) {
    BSON_APPEND_BOOL(opts, "tailable", strncmp(type, "tailable", strlen("tailable")) == 0);
    BSON_APPEND_BOOL(opts, "awaitData", strcmp(type, "tailableAwait") == 0);
}

/* Reads what is an option into `opts`; the positional arguments are left out.
 *
 * The driver sends an option that it does not know to the server, or passes over it. So each operation has a
 * list of those that its documentation names, and a case that needs another is skipped. */
bool read_options(struct call *call, const bson_t *given, const char *positional, const char *allowed,
                  bson_t *opts) {
    bson_iter_t each;
    bson_iter_init(&each, given);
    while (bson_iter_next(&each)) {
        const char *name = bson_iter_key(&each);
        if (has_word(positional, name)) {
            continue;
        }
        if (!has_word(allowed, name)) {
            return refuse(call->answer, "the driver does not take %s here", name);
        }
        if (strcmp(name, "session") == 0) {
            if (!append_session_id(call->session, opts, call->answer)) {
                return false;
            }
        } else if (strcmp(name, "readPreference") == 0) {
            call->prefs = read_prefs_of(given);
        } else if (strcmp(name, "writeConcern") == 0) {
            mongoc_write_concern_t *concern = write_concern_of(given);
            mongoc_write_concern_append(concern, opts);
            mongoc_write_concern_destroy(concern);
        } else if (strcmp(name, "cursorType") == 0) {
            append_cursor_type(bson_iter_utf8(&each, NULL), opts);
        } else {
            bson_append_iter(opts, NULL, 0, &each);
        }
    }
    return true;
}
