/* Names of the files of a model that lies in several: NAME-00001-of-00005.gguf, as llama.cpp's
 * gguf-split and the model hubs write them. Thread: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More than any published model has; each is an open file. */
#define LH_GGUF_PARTS_MAX 256u

typedef struct lh_gguf_part_name {
    size_t stem_bytes; /* of the path, before "-00001-of-00005.gguf" */
    uint32_t number;   /* 1 .. count */
    uint32_t count;
} lh_gguf_part_name;

/* False: the path (or URL's path) ends otherwise; then *name is {all of it but ".gguf", 1, 1}. */
bool lh_gguf_part_name_parse(const char *path, lh_gguf_part_name *name);
/* The path of another part beside `path`, malloc'd; NULL: no memory. Of a file that is no part, the
 * path itself. */
char *lh_gguf_part_path(const char *path, const lh_gguf_part_name *name, uint32_t number);
/* Calls visit for the path of each part of the model that `path` names, of LH_GGUF_PARTS_MAX at
 * most; once for a model in one file. A path for which there is no memory is left out. */
void lh_gguf_visit_parts(const char *path, void (*visit)(void *context, const char *path),
                         void *context);
