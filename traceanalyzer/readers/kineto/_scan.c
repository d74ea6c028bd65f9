/* Reads lists of events straight into columns: the compiled shortcut of `scanning.py`, which says what is read.

   Only plain text is read: valid JSON, each event an object, each value of the expected kind. The scan stops at
   anything else and says where; the text from there goes through msgspec, which decides what is right. So nothing here
   repairs, guesses or reports errors, and whatever is accepted means the same there. */

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000 /* what is compiled runs with Python 3.11 and all later ones */
#endif
#include <Python.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef CHECKSUM
#error "compile with hatch_build.py, which defines the checksum of this file; scanning.py compares it"
#endif

/* What a column is made of: `fields.Kind`, and KINDS below, which is compared with it. */
enum {
    INTEGER,  /* int64; its default where the key is missing */
    SMALL,    /* int32; -1 where missing or larger */
    NUMBER,   /* float64; NaN where missing */
    TIME,     /* decimal microseconds to int64 nanoseconds */
    DURATION, /* the same through float64, rounded as numpy's rint */
    TEXT,     /* int32, code of the value's text; of the empty text where missing */
    STRING,   /* the same of a string */
    NAMED,    /* the same of a string; -1 where missing or empty */
    PAIR,     /* int32, code of two texts: of this value and of the next column's */
    SECOND,   /* the second value of a PAIR; no column of its own */
    WHOLE,    /* int32, code of the text of all arguments where one of the keys is there; of the empty text elsewhere */
    CATEGORY, /* int32, number of the event's category */
    REQUIRED, /* the value's text must be an allowed one; no column of its own */
    BEYOND,   /* int64 that is at least as large as the column says; other events are only counted */
    SPREAD,   /* as WHOLE, and where there is a key that no writer has, if one of the first two known ones has a value but 0 */
};

static const char *KINDS[] = {"INTEGER", "SMALL", "NUMBER", "TIME",  "DURATION", "TEXT",    "STRING",
                              "NAMED",   "PAIR",  "SECOND", "WHOLE", "CATEGORY", "REQUIRED",
                              "BEYOND", "SPREAD"};

/* Types of values. */
enum {
    PLAIN,   /* a string that says what it is */
    ESCAPED, /* one with a backslash */
    UNCLEAR, /* one with \u, which may still be invalid: msgspec knows */
    NUMERIC,
    LITERAL,
    NESTED,
};

enum { MOST_KEYS = 64, MOST_COLUMNS = 40, MOST_ALLOWED = 8, MOST_POOLS = 32, DEEPEST = 32, LONGEST = 40 /* characters of a number */ };
enum { COUNTED = -1 }; /* instead of a table: events that are only counted */
enum { UNUSED = -1, OTHER = -2 }; /* instead of a column: of keys that are not read, and that no writer has */

typedef struct {
    const char *text;
    uint32_t size;
} Span;

typedef struct {
    Span key, value;
    char type;
} Token;

typedef struct {
    Token tokens[MOST_KEYS];
    int count;
} Object;

typedef struct {
    Span key;
    int in_args, kind, pool;
    int64_t missing;
    union { /* what was read, by row; of the type that the kind says */
        void *values;
        int64_t *integers;
        double *numbers;
        int32_t *codes;
    };
    int allowed_count;
    Span allowed[MOST_ALLOWED]; /* of a required value; other keys of a WHOLE; last, as hardly any column has some */
    Span *known; /* keys that writers have beside those of columns, for a SPREAD */
    int known_count;
} Column;

typedef struct {
    Column columns[MOST_COLUMNS];
    int count, beyond;    /* beyond: the column that tells which events have a row; -1 if all have */
    int spread, conditions[2]; /* the column that other keys tell of, and those that must have a value; -1 if none is */
    Py_ssize_t rows, room;
    /* By place in the object: the key that was there last, and its column. Writers keep the order of keys. */
    struct {
        Span key;
        int column;
    } guess[2][MOST_KEYS];
} TableOf;

typedef struct {
    Span text;
    int table;
    Py_ssize_t count, first;
} CategoryOf;

typedef struct {
    Span text, more; /* what has a code: a text, or the two of a pair */
    uint64_t hash;
    int pool;
    int32_t code; /* its number in the pool */
} Entry;

typedef struct {
    TableOf *tables;
    int table_count;
    CategoryOf *categories;
    int category_count;
    Entry *entries;
    int32_t entry_count, entry_room;
    int32_t *slots; /* hash table of entries; -1 is free */
    int32_t pool_sizes[MOST_POOLS];
    uint32_t mask;
    uint64_t seed; /* of the hash, so that no file can be made of texts that meet in one slot */
    Py_ssize_t elements;
    const char *reached; /* the event that is being read, and what there was before it */
    int32_t entries_before;
    Py_ssize_t rows_before; /* of its table */
    int last_category;
    int is_mark; /* of the recording: an instant without a category, which is only counted */
    Object event, args;
    Span args_text;
} Scan;

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

static inline const char *skip_white(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) {
        p++;
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        while (end - p >= 8 && *p == ' ') { /* indentation */
            uint64_t word;
            memcpy(&word, p, 8);
            word ^= 0x2020202020202020u;
            if (word) {
                p += __builtin_ctzll(word) >> 3;
                break;
            }
            p += 8;
        }
#endif
    }
    return p;
}

/* The end of a UTF-8 sequence of several bytes; NULL if it is none. */
static const char *skip_utf8(const char *p, const char *end)
{
    const unsigned char *s = (const unsigned char *)p;
    int size = s[0] >= 0xC2 && s[0] <= 0xDF ? 2 : (s[0] & 0xF0) == 0xE0 ? 3 : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4 : 0;
    if (!size || end - p < size)
        return NULL;
    for (int i = 1; i < size; i++)
        if ((s[i] & 0xC0) != 0x80)
            return NULL;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return NULL;
    return p + size;
}

/* How many of the eight characters from here on are neither a quote nor a backslash, control or beyond ASCII. */
static inline int plain_characters(const char *p)
{
    uint64_t word;
    memcpy(&word, p, 8);
    uint64_t quote = word ^ 0x2222222222222222u, slash = word ^ 0x5C5C5C5C5C5C5C5Cu;
    uint64_t special = ((quote - 0x0101010101010101u) & ~quote) | ((slash - 0x0101010101010101u) & ~slash) |
                       (word - 0x2020202020202020u) | word; /* right up to the first one, by its highest bit */
    special &= 0x8080808080808080u;
    if (!special)
        return 8;
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return __builtin_ctzll(special) >> 3;
#else
    return 0;
#endif
}

/* The end of a string whose opening quote was read, behind its closing one; NULL if it is not valid. */
static const char *skip_string(const char *p, const char *end, char *type)
{
    *type = PLAIN;
    while (p < end) {
        if (end - p >= 8) {
            int plain = plain_characters(p);
            p += plain;
            if (plain == 8)
                continue;
        }
        unsigned char c = (unsigned char)*p;
        if (c == '"')
            return p + 1;
        if (c == '\\') {
            if (end - p < 2 || !memchr("\"\\/bfnrtu", p[1], 9))
                return NULL;
            if (*type != UNCLEAR)
                *type = p[1] == 'u' ? UNCLEAR : ESCAPED;
            p += 2;
        } else if (c < 0x20) {
            return NULL;
        } else if (c < 0x80) {
            p++;
        } else if (!(p = skip_utf8(p, end))) {
            return NULL;
        }
    }
    return NULL;
}

static inline int is_digit(const char *p, const char *end)
{
    return p < end && (unsigned char)(*p - '0') <= 9;
}

/* The end of a number that surely fits into float64; NULL if it is not valid, or longer. */
static const char *skip_number(const char *p, const char *end)
{
    const char *start = p;
    if (*p == '-')
        p++;
    if (!is_digit(p, end))
        return NULL;
    if (*p++ == '0' && is_digit(p, end))
        return NULL;
    while (is_digit(p, end))
        p++;
    if (p < end && *p == '.') {
        if (!is_digit(++p, end))
            return NULL;
        while (is_digit(p, end))
            p++;
    }
    if (p - start > LONGEST)
        return NULL;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if (!is_digit(p, end))
            return NULL;
        for (int digits = 0; is_digit(p, end); p++)
            if (++digits > 2)
                return NULL;
    }
    return p;
}

static const char *skip_literal(const char *p, const char *end)
{
    static const char *literals[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++) {
        Py_ssize_t size = (Py_ssize_t)strlen(literals[i]);
        if (end - p >= size && !memcmp(p, literals[i], (size_t)size))
            return p + size;
    }
    return NULL;
}

static const char *skip_nested(const char *p, const char *end, int depth);

/* The end of a value and its type; NULL if it is not valid. */
static const char *skip_value(const char *p, const char *end, int depth, char *type)
{
    if (p >= end)
        return NULL;
    switch (*p) {
    case '"':
        return skip_string(p + 1, end, type);
    case '[':
    case '{':
        *type = NESTED;
        return skip_nested(p, end, depth + 1);
    case 't':
    case 'f':
    case 'n':
        *type = LITERAL;
        return skip_literal(p, end);
    default:
        *type = NUMERIC;
        return skip_number(p, end);
    }
}

/* The end of a list or an object; NULL if it is not valid, too deep, or has a string with \u. */
static const char *skip_nested(const char *p, const char *end, int depth)
{
    char is_object = *p == '{', close = is_object ? '}' : ']', type;
    if (depth > DEEPEST)
        return NULL;
    p = skip_white(p + 1, end);
    if (p < end && *p == close)
        return p + 1;
    for (;;) {
        if (is_object) {
            if (p >= end || *p != '"' || !(p = skip_string(p + 1, end, &type)) || type == UNCLEAR)
                return NULL;
            p = skip_white(p, end);
            if (p >= end || *p != ':')
                return NULL;
            p = skip_white(p + 1, end);
        }
        if (!(p = skip_value(p, end, depth, &type)) || type == UNCLEAR)
            return NULL;
        p = skip_white(p, end);
        if (p >= end)
            return NULL;
        if (*p == close)
            return p + 1;
        if (*p != ',')
            return NULL;
        p = skip_white(p + 1, end);
    }
}

static const Span EMPTY = {"", 0};

static inline int is(Span span, const char *text, uint32_t size)
{
    return span.size == size && !memcmp(span.text, text, size);
}

/* Read the keys and values of an object; those of `args`, once, go to `nested`. The end, or NULL. */
static const char *read_object(const char *p, const char *end, Object *into, Object *nested, Span *whole)
{
    into->count = 0;
    if (p >= end || *p != '{')
        return NULL;
    p = skip_white(p + 1, end);
    if (p < end && *p == '}')
        return p + 1;
    for (;;) {
        char type;
        const char *key = p + 1;
        if (into->count == MOST_KEYS || p >= end || *p != '"' || !(p = skip_string(key, end, &type)))
            return NULL;
        Token *token = &into->tokens[into->count++];
        token->key = (Span){key, (uint32_t)(p - 1 - key)};
        if (type != PLAIN) /* it may spell a known key in another way */
            return NULL;
        p = skip_white(p, end);
        if (p >= end || *p != ':')
            return NULL;
        p = skip_white(p + 1, end);
        token->value.text = p;
        if (nested && is(token->key, "args", 4)) {
            if (whole->text)
                return NULL;
            token->type = NESTED;
            whole->text = p;
            p = read_object(p, end, nested, NULL, NULL);
        } else {
            p = skip_value(p, end, 0, &token->type);
        }
        if (!p)
            return NULL;
        token->value.size = (uint32_t)(p - token->value.text);
        if (whole && whole->text == token->value.text)
            *whole = token->value;
        p = skip_white(p, end);
        if (p >= end)
            return NULL;
        if (*p == '}')
            return p + 1;
        if (*p != ',')
            return NULL;
        p = skip_white(p + 1, end);
    }
}

/* ---- Values ---------------------------------------------------------------------------------------------------- */

static int read_integer(const Token *token, int64_t *out)
{
    const char *p = token->value.text, *end = p + token->value.size;
    int negative = token->type == NUMERIC && *p == '-';
    p += negative;
    if (token->type != NUMERIC || end - p > 18)
        return 0;
    int64_t value = 0;
    for (; p < end; p++) {
        if (!is_digit(p, end))
            return 0;
        value = 10 * value + (*p - '0');
    }
    *out = negative ? -value : value;
    return 1;
}

/* Whether a value says itself that there is none: `null` stands for what was not recorded, as a missing key does. */
static inline int is_null(const Token *token)
{
    return token->type == LITERAL && token->value.text[0] == 'n';
}

/* Up to fifteen digits are exact in float64, and so is a power of ten up to 22: one division rounds correctly. */
static int read_number(const Token *token, double *out)
{
    static const double power[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const char *p = token->value.text, *end = p + token->value.size, *point = NULL;
    if (token->type != NUMERIC)
        return 0;
    int negative = *p == '-', digits = 0;
    int64_t value = 0;
    for (p += negative; p < end && digits <= 15; p++) {
        if (*p == '.')
            point = p;
        else if (is_digit(p, end))
            value = 10 * value + (*p - '0'), digits++;
        else
            break; /* an exponent */
    }
    if (p == end && digits <= 15) {
        if (negative && !value) /* the integer -0 has no sign in Python, and -0.0 has one */
            return 0;
        double found = (double)value / power[point ? end - point - 1 : 0];
        *out = negative ? -found : found;
        return 1;
    }
    char copy[LONGEST + 8];
    memcpy(copy, token->value.text, token->value.size);
    copy[token->value.size] = 0;
    *out = PyOS_string_to_double(copy, NULL, NULL);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return 1;
}

/* The tokens that `values._parse_swar` reads: sixteen digits, three decimals, below 4e15 microseconds. */
static int read_time(const Token *token, int64_t *out)
{
    const char *p = token->value.text, *end = p + token->value.size, *start = p;
    int64_t micros = 0, weight = 100;
    if (token->type != NUMERIC)
        return 0;
    for (; is_digit(p, end) && p - start <= 16; p++)
        micros = 10 * micros + (*p - '0');
    if (p == start || p - start > 16 || micros >= 4000000000000000)
        return 0;
    *out = 1000 * micros;
    if (p == end)
        return 1;
    if (*p != '.' || end - p > 4)
        return 0;
    for (p++; p < end; p++, weight /= 10) {
        if (!is_digit(p, end))
            return 0;
        *out += weight * (*p - '0');
    }
    return 1;
}

static int read_duration(const Token *token, int64_t *out)
{
    double micros;
    if (!read_number(token, &micros) || !(micros >= 0 && micros <= 1e15))
        return 0;
    double nanos = micros * 1000, rest;
    *out = (int64_t)nanos;
    rest = nanos - (double)*out;
    *out += rest > 0.5 || (rest == 0.5 && *out % 2); /* half to even; rint() would need the mathematical library */
    return 1;
}

/* ---- Codes ----------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *p, size_t size, uint64_t seed)
{
    uint64_t hash = seed ^ (size * 0x9E3779B97F4A7C15u), word;
    for (; size >= 8; p += 8, size -= 8) {
        memcpy(&word, p, 8);
        hash = (hash ^ word) * 0xFF51AFD7ED558CCDu;
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, p, size);
    hash = (hash ^ word) * 0xC4CEB9FE1A85EC53u;
    return hash ^ (hash >> 29) ^ (hash >> 47); /* the last bytes reach the highest bits alone */
}

static int grow_slots(Scan *scan)
{
    uint32_t size = scan->mask ? 2 * (scan->mask + 1) : 1024;
    int32_t *slots = PyMem_Malloc(size * sizeof *slots);
    if (!slots)
        return 0;
    memset(slots, 0xFF, size * sizeof *slots);
    for (int32_t i = 0; i < scan->entry_count; i++) {
        uint32_t at = (uint32_t)scan->entries[i].hash & (size - 1);
        while (slots[at] >= 0)
            at = (at + 1) & (size - 1);
        slots[at] = i;
    }
    PyMem_Free(scan->slots);
    scan->slots = slots;
    scan->mask = size - 1;
    return 1;
}

/* The code of a text or a pair in a pool, in the order in which they come; -1 if there is no memory. */
static int32_t code_of(Scan *scan, int pool, Span text, Span more)
{
    uint64_t hash = hash_of(text.text, text.size, scan->seed + (uint64_t)pool);
    if (more.size)
        hash = hash_of(more.text, more.size, hash);
    if (!scan->mask || 2 * (uint32_t)scan->entry_count > scan->mask) {
        if (!grow_slots(scan))
            return -1;
    }
    uint32_t at = (uint32_t)hash & scan->mask;
    for (int32_t found; (found = scan->slots[at]) >= 0; at = (at + 1) & scan->mask) {
        Entry *entry = &scan->entries[found];
        if (entry->hash == hash && entry->pool == pool && is(entry->text, text.text, text.size) &&
            is(entry->more, more.text, more.size))
            return entry->code;
    }
    if (scan->entry_count == scan->entry_room) {
        int32_t room = scan->entry_room ? 2 * scan->entry_room : 512;
        Entry *entries = PyMem_Realloc(scan->entries, (size_t)room * sizeof *entries);
        if (!entries)
            return -1;
        scan->entries = entries;
        scan->entry_room = room;
    }
    scan->entries[scan->entry_count] = (Entry){text, more, hash, pool, scan->pool_sizes[pool]};
    scan->slots[at] = scan->entry_count++;
    return scan->pool_sizes[pool]++;
}

/* ---- Events ---------------------------------------------------------------------------------------------------- */

static int width(int kind)
{
    switch (kind) {
    case SECOND:
    case REQUIRED:
        return 0;
    case INTEGER:
    case NUMBER:
    case TIME:
    case DURATION:
    case BEYOND:
        return 8;
    default:
        return 4;
    }
}

static int make_room(TableOf *table)
{
    if (table->rows < table->room)
        return 1;
    Py_ssize_t room = table->room ? 2 * table->room : 256;
    for (int i = 0; i < table->count; i++) {
        Column *column = &table->columns[i];
        size_t size = (size_t)room * (size_t)width(column->kind);
        void *values = size ? PyMem_Realloc(column->values, size) : NULL;
        if (size && !values)
            return 0;
        column->values = values;
    }
    table->room = room;
    return 1;
}

static int has_key(const Column *column, Span key)
{
    if (is(key, column->key.text, column->key.size))
        return 1;
    for (int i = 0; column->kind != REQUIRED && i < column->allowed_count; i++)
        if (is(key, column->allowed[i].text, column->allowed[i].size))
            return 1;
    return 0;
}

static int find_column(const TableOf *table, Span key, int in_args)
{
    for (int i = 0; i < table->count; i++)
        if (table->columns[i].in_args == in_args && has_key(&table->columns[i], key))
            return i;
    if (!in_args || table->spread < 0)
        return UNUSED;
    const Column *column = &table->columns[table->spread];
    for (int i = 0; i < column->known_count; i++)
        if (is(key, column->known[i].text, column->known[i].size))
            return UNUSED;
    return OTHER;
}

/* Assign the values of an object to the columns that want them; 0 if it is not plain, OTHER if no writer has a key. */
static int assign(TableOf *table, const Object *object, int in_args, const Token **values)
{
    int result = 1;
    for (int i = 0; i < object->count; i++) {
        const Token *token = &object->tokens[i];
        Span *guess = &table->guess[in_args][i].key;
        if (!guess->text || !is(token->key, guess->text, guess->size)) {
            *guess = token->key;
            table->guess[in_args][i].column = find_column(table, token->key, in_args);
        }
        int column = table->guess[in_args][i].column;
        if (token->type == UNCLEAR && (column < 0 || table->columns[column].kind != STRING))
            return 0;
        if (column < 0) {
            result = column == OTHER ? OTHER : result;
            continue;
        }
        if (values[column] && table->columns[column].kind != WHOLE && column != table->spread) /* a key twice */
            return 0;
        values[column] = token;
    }
    return result;
}

static int has_unclear(const Object *object)
{
    for (int i = 0; i < object->count; i++)
        if (object->tokens[i].type == UNCLEAR)
            return 1;
    return 0;
}

static int is_allowed(const Column *column, const Token *token)
{
    for (int i = 0; token && i < column->allowed_count; i++)
        if (is(token->value, column->allowed[i].text, column->allowed[i].size))
            return 1;
    return 0;
}

/* Write the code of a row's text; 0 if the value is not plain. */
static int store_code(Scan *scan, const Column *column, const Token **value, int32_t *out)
{
    const Token *token = value[0];
    Span text = token ? token->value : EMPTY, more = EMPTY;
    switch (column->kind) {
    case STRING:
    case NAMED:
        if (token && token->type > UNCLEAR)
            return 0;
        if (column->kind == NAMED && text.size <= 2) {
            *out = -1;
            return 1;
        }
        break;
    case PAIR:
        more = value[1] ? value[1]->value : EMPTY;
        for (int i = 0; i < 2; i++)
            if (value[i] && value[i]->type == NESTED)
                return 0;
        break;
    case WHOLE:
    case SPREAD:
        if (token)
            text = scan->args_text;
        break;
    default:
        break;
    }
    *out = code_of(scan, column->pool, text, more);
    return *out >= 0;
}

/* Whether an event has a row in its table, by its value that must be large enough; -1 if that is not plain. */
static int has_row(const TableOf *table, const Object *event)
{
    const Column *column = &table->columns[table->beyond];
    int64_t value;
    for (int i = 0; i < event->count; i++)
        if (is(event->tokens[i].key, column->key.text, column->key.size)) {
            if (event->tokens[i].type != NUMERIC)
                return 0;
            return read_integer(&event->tokens[i], &value) ? value >= column->missing : -1;
        }
    return 0;
}

/* Append an event to the columns of its table; 0 if a value is not plain. */
static int append(Scan *scan, TableOf *table, int category)
{
    const Token *values[MOST_COLUMNS + 1] = {NULL};
    if (!make_room(table) || !assign(table, &scan->event, 0, values))
        return 0;
    int found = assign(table, &scan->args, 1, values);
    if (!found)
        return 0;
    for (int i = 0; found == OTHER && i < 2; i++) {
        const Token *condition = values[table->conditions[i]];
        if (condition && condition->type == NUMERIC && !is(condition->value, "0", 1))
            values[table->spread] = condition;
    }
    Py_ssize_t row = table->rows++;
    for (int i = 0; i < table->count; i++) {
        Column *column = &table->columns[i];
        const Token *value = values[i];
        const Token *number = value && !is_null(value) ? value : NULL;
        int64_t integer = -1;
        int plain = 1;
        switch (column->kind) {
        case BEYOND:
        case INTEGER:
            if (number)
                plain = read_integer(number, &column->integers[row]);
            else
                column->integers[row] = column->missing;
            break;
        case SMALL:
            plain = !number || read_integer(number, &integer);
            column->codes[row] = integer > INT32_MIN && integer <= INT32_MAX ? (int32_t)integer : -1;
            break;
        case NUMBER:
            if (number)
                plain = read_number(number, &column->numbers[row]);
            else
                column->numbers[row] = NAN;
            break;
        case TIME:
            plain = value && read_time(value, &column->integers[row]);
            break;
        case DURATION:
            plain = value && read_duration(value, &column->integers[row]);
            break;
        case CATEGORY:
            column->codes[row] = category;
            break;
        case REQUIRED:
            plain = is_allowed(column, value);
            break;
        case SECOND:
            break;
        default:
            plain = store_code(scan, column, values + i, &column->codes[row]);
        }
        if (!plain)
            return 0;
    }
    return 1;
}

/* The number of the event's category; -1 if it has none, two, or an unknown one. Counters and marks of the recording
   have none: that is the empty category.

   Also -1 if phase or name are no strings: whether msgspec takes that depends on whether it knows the category. */
static int category_of(Scan *scan)
{
    const Token *found = NULL, *name = NULL;
    int is_counter = 0, is_instant = 0;
    for (int i = 0; i < scan->event.count; i++) {
        const Token *token = &scan->event.tokens[i];
        if (is(token->key, "ph", 2)) {
            if (is_counter || is_instant) /* a key twice */
                return -1;
            is_counter = is(token->value, "\"C\"", 3);
            is_instant = is(token->value, "\"i\"", 3);
        }
        if (is(token->key, "name", 4)) {
            if (name)
                return -1;
            name = token;
        }
        if (token->type > UNCLEAR && (is(token->key, "ph", 2) || is(token->key, "name", 4)))
            return -1;
        if (!is(token->key, "cat", 3))
            continue;
        if (found || token->type != PLAIN)
            return -1;
        found = token;
    }
    Span text = found ? found->value : EMPTY;
    /* Records of memory are instants, too, of some writers without a category. */
    scan->is_mark = is_instant && !found && name && name->type == PLAIN && !is(name->value, "\"[memory]\"", 10);
    for (int i = 0; (found || is_counter || scan->is_mark) && i < scan->category_count; i++) {
        int at = (scan->last_category + i) % scan->category_count; /* often that of the event before */
        if (is(scan->categories[at].text, text.text, text.size))
            return scan->last_category = at;
    }
    return -1;
}

/* Forget the event that is being read, which is the last one; 0, because not everything is plain. */
static int stop(Scan *scan, CategoryOf *known)
{
    scan->entry_count = scan->entries_before;
    if (known) {
        known->count--;
        scan->elements--;
        if (known->table != COUNTED)
            scan->tables[known->table].rows = scan->rows_before;
    }
    return 0;
}

/* Read the events between two borders, up to the first that is not plain; 0 if there is one. */
static int read_window(Scan *scan, const char *p, const char *end)
{
    p = skip_white(p, end);
    while (p < end) {
        scan->reached = p;
        scan->entries_before = scan->entry_count;
        scan->args.count = 0;
        scan->args_text = (Span){NULL, 0};
        p = read_object(p, end, &scan->event, &scan->args, &scan->args_text);
        if (!p)
            return stop(scan, NULL);
        int category = category_of(scan);
        if (category < 0)
            return stop(scan, NULL);
        CategoryOf *known = &scan->categories[category];
        if (!known->count++)
            known->first = scan->elements;
        scan->elements++;
        scan->rows_before = known->table == COUNTED ? 0 : scan->tables[known->table].rows;
        int rows = known->table == COUNTED || scan->is_mark ? 0
                   : scan->tables[known->table].beyond < 0 ? 1
                                                           : has_row(&scan->tables[known->table], &scan->event);
        if (rows < 0)
            return stop(scan, known);
        if (!rows ? has_unclear(&scan->event) || has_unclear(&scan->args)
                                    : !append(scan, &scan->tables[known->table], category))
            return stop(scan, known);
        p = skip_white(p, end);
        if (p == end)
            return 1;
        if (*p != ',')
            return stop(scan, known);
        p = skip_white(p + 1, end);
        if (p == end)
            return stop(scan, known);
    }
    return 1;
}

/* ---- From and to Python ---------------------------------------------------------------------------------------- */

/* The bytes of a tuple, which lives as long as the module that called; 0 if there is anything else in it. */
static int as_spans(PyObject *texts, Span *spans, int *count)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(texts); i++) {
        PyObject *text = PyTuple_GetItem(texts, i);
        if (!PyBytes_Check(text))
            return 0;
        spans[(*count)++] = (Span){PyBytes_AsString(text), (uint32_t)PyBytes_Size(text)};
    }
    return 1;
}

static int as_column(PyObject *spec, Column *column, int pool_count)
{
    const char *key;
    Py_ssize_t size;
    long long missing;
    PyObject *allowed, *known;
    if (!PyArg_ParseTuple(spec, "y#iiiLO!O!", &key, &size, &column->in_args, &column->kind, &column->pool, &missing,
                          &PyTuple_Type, &allowed, &PyTuple_Type, &known))
        return 0;
    Py_ssize_t count = PyTuple_Size(known);
    column->known = PyMem_Calloc((size_t)count + 1, sizeof *column->known);
    if (!column->known) {
        PyErr_NoMemory();
        return 0;
    }
    int is_right = column->pool >= 0 && column->pool < pool_count && PyTuple_Size(allowed) <= MOST_ALLOWED &&
                   as_spans(allowed, column->allowed, &column->allowed_count) &&
                   as_spans(known, column->known, &column->known_count) && (count > 1 || column->kind != SPREAD);
    if (!is_right) {
        PyErr_SetString(PyExc_ValueError, "no such column");
        return 0;
    }
    column->key = (Span){key, (uint32_t)size};
    column->missing = missing;
    return 1;
}

static int as_table(PyObject *specs, TableOf *table, int pool_count)
{
    if (!PyTuple_Check(specs) || PyTuple_Size(specs) > MOST_COLUMNS) {
        PyErr_SetString(PyExc_ValueError, "no table, or too many columns");
        return 0;
    }
    table->count = (int)PyTuple_Size(specs);
    table->beyond = table->spread = table->conditions[0] = table->conditions[1] = -1;
    for (int i = 0; i < table->count; i++) {
        if (!as_column(PyTuple_GetItem(specs, i), &table->columns[i], pool_count))
            return 0;
        if (table->columns[i].kind == BEYOND)
            table->beyond = i;
        if (table->columns[i].kind == SPREAD)
            table->spread = i;
    }
    if (table->spread >= 0) {
        const Span *first = table->columns[table->spread].known;
        for (int i = 0; i < 2 * table->count; i++)
            if (table->columns[i / 2].in_args && is(table->columns[i / 2].key, first[i % 2].text, first[i % 2].size))
                table->conditions[i % 2] = i / 2;
        if (table->conditions[0] < 0 || table->conditions[1] < 0) {
            PyErr_SetString(PyExc_ValueError, "no columns of the first known keys");
            return 0;
        }
    }
    return 1;
}

static int prepare(Scan *scan, PyObject *categories, PyObject *tables, int pool_count)
{
    scan->category_count = (int)PyTuple_Size(categories);
    scan->table_count = (int)PyTuple_Size(tables);
    if (pool_count > MOST_POOLS) {
        PyErr_SetString(PyExc_ValueError, "too many pools");
        return 0;
    }
    scan->categories = PyMem_Calloc((size_t)scan->category_count + 1, sizeof *scan->categories);
    scan->tables = PyMem_Calloc((size_t)scan->table_count + 1, sizeof *scan->tables);
    if (!scan->categories || !scan->tables) {
        PyErr_NoMemory();
        return 0;
    }
    for (int i = 0; i < scan->table_count; i++)
        if (!as_table(PyTuple_GetItem(tables, i), &scan->tables[i], pool_count))
            return 0;
    for (int i = 0; i < scan->category_count; i++) {
        CategoryOf *category = &scan->categories[i];
        const char *text;
        Py_ssize_t size;
        if (!PyArg_ParseTuple(PyTuple_GetItem(categories, i), "y#i", &text, &size, &category->table))
            return 0;
        if (category->table < COUNTED || category->table >= scan->table_count) {
            PyErr_SetString(PyExc_ValueError, "no such table");
            return 0;
        }
        category->text = (Span){text, (uint32_t)size};
    }
    return 1;
}

/* The texts of each pool by code. */
static PyObject *texts_of(const Scan *scan, int pool_count)
{
    PyObject *pools = PyList_New(pool_count);
    for (int i = 0; pools && i < pool_count; i++) {
        PyObject *pool = PyList_New(0);
        if (!pool)
            Py_CLEAR(pools);
        else
            PyList_SetItem(pools, i, pool);
    }
    for (int32_t i = 0; pools && i < scan->entry_count; i++) {
        const Entry *entry = &scan->entries[i];
        PyObject *text = Py_BuildValue("(y#y#)", entry->text.text, (Py_ssize_t)entry->text.size, entry->more.text,
                                       (Py_ssize_t)entry->more.size);
        if (!text || PyList_Append(PyList_GetItem(pools, entry->pool), text) < 0)
            Py_CLEAR(pools);
        Py_XDECREF(text);
    }
    return pools;
}

/* Each table: its number of rows, and the bytes of each column. */
static PyObject *columns_of(const Scan *scan)
{
    PyObject *tables = PyList_New(scan->table_count);
    for (int i = 0; tables && i < scan->table_count; i++) {
        const TableOf *table = &scan->tables[i];
        PyObject *columns = PyList_New(table->count);
        for (int j = 0; columns && j < table->count; j++) {
            const Column *column = &table->columns[j];
            PyObject *bytes = PyBytes_FromStringAndSize(column->values, table->rows * width(column->kind));
            if (bytes)
                PyList_SetItem(columns, j, bytes);
            else
                Py_CLEAR(columns);
        }
        if (columns)
            PyList_SetItem(tables, i, columns);
        else
            Py_CLEAR(tables);
    }
    return tables;
}

static PyObject *counts_of(const Scan *scan)
{
    PyObject *counts = PyList_New(scan->category_count);
    for (int i = 0; counts && i < scan->category_count; i++) {
        PyObject *count = Py_BuildValue("(nn)", scan->categories[i].count, scan->categories[i].first);
        if (count)
            PyList_SetItem(counts, i, count);
        else
            Py_CLEAR(counts);
    }
    return counts;
}

static void release(Scan *scan)
{
    for (int i = 0; scan->tables && i < scan->table_count; i++) {
        for (int j = 0; j < scan->tables[i].count; j++) {
            PyMem_Free(scan->tables[i].columns[j].values);
            PyMem_Free(scan->tables[i].columns[j].known);
        }
    }
    PyMem_Free(scan->tables);
    PyMem_Free(scan->categories);
    PyMem_Free(scan->entries);
    PyMem_Free(scan->slots);
    PyMem_Free(scan);
}

/* Every pool of optional texts begins with the empty one, before all that is read. */
static int add_empty_texts(Scan *scan, PyObject *pools)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(pools); i++)
        if (PyObject_IsTrue(PyTuple_GetItem(pools, i)) && code_of(scan, (int)i, EMPTY, EMPTY) < 0)
            return 0;
    return 1;
}

static int read_windows(Scan *scan, const char *text, Py_ssize_t size, PyObject *borders)
{
    if (size > INT32_MAX) /* beyond what sizes and codes hold */
        return 0;
    for (Py_ssize_t i = 0; i + 1 < PyList_Size(borders); i++) {
        Py_ssize_t before = PyLong_AsSsize_t(PyList_GetItem(borders, i));
        Py_ssize_t cut = before < 0 ? -1 : PyLong_AsSsize_t(PyList_GetItem(borders, i + 1));
        if (before < 0 || cut <= before || cut > size) {
            scan->reached = text;
            return 0;
        }
        if (!read_window(scan, text + before + 1, text + cut))
            return 0;
    }
    return 1;
}

PyDoc_STRVAR(scan_doc,
"scan(text, borders, categories, tables, pools, seed)\n--\n\n"
"The columns of the events between borders, up to the first event that is not plain, and its place.\n\n"
"Arguments and result are explained in `scanning.py`, the only caller.");

static PyObject *scan_text(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer text;
    PyObject *borders, *categories, *tables, *pools, *result = NULL;
    unsigned long long seed;
    if (!PyArg_ParseTuple(arguments, "y*O!O!O!O!K", &text, &PyList_Type, &borders, &PyTuple_Type, &categories,
                          &PyTuple_Type, &tables, &PyTuple_Type, &pools, &seed))
        return NULL;
    Scan *scan = PyMem_Calloc(1, sizeof *scan);
    if (!scan) {
        PyBuffer_Release(&text);
        return PyErr_NoMemory();
    }
    scan->seed = seed;
    scan->reached = text.buf;
    int pool_count = (int)PyTuple_Size(pools);
    if (prepare(scan, categories, tables, pool_count) && add_empty_texts(scan, pools)) {
        int is_plain = read_windows(scan, text.buf, text.len, borders);
        PyObject *texts = texts_of(scan, pool_count);
        PyObject *columns = texts ? columns_of(scan) : NULL, *counts = columns ? counts_of(scan) : NULL;
        if (counts)
            result = Py_BuildValue("(nOOOn)", scan->elements, counts, columns, texts,
                                   is_plain ? -1 : scan->reached - (const char *)text.buf);
        Py_XDECREF(texts);
        Py_XDECREF(columns);
        Py_XDECREF(counts);
    }
    if (!result && !PyErr_Occurred())
        PyErr_NoMemory();
    release(scan);
    PyBuffer_Release(&text);
    return result;
}

static PyMethodDef methods[] = {{"scan", scan_text, METH_VARARGS, scan_doc}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_scan", "Reads lists of events into columns.", 0, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__scan(void)
{
    Py_ssize_t count = sizeof KINDS / sizeof *KINDS;
    PyObject *made = PyModule_Create(&module), *kinds = PyTuple_New(count);
    for (Py_ssize_t i = 0; kinds && i < count; i++) {
        PyObject *name = PyUnicode_FromString(KINDS[i]);
        if (name)
            PyTuple_SetItem(kinds, i, name);
        else
            Py_CLEAR(kinds);
    }
    PyObject *checksum = PyLong_FromUnsignedLong(CHECKSUM);
    if (!made || !kinds || !checksum || PyModule_AddObjectRef(made, "KINDS", kinds) < 0 ||
        PyModule_AddObjectRef(made, "CHECKSUM", checksum) < 0)
        Py_CLEAR(made);
    Py_XDECREF(checksum);
    Py_XDECREF(kinds);
    return made;
}
