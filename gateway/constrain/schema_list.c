/* A few pointers. */
#include "gateway/constrain/schema_list.h"

#include "gateway/constrain/schema_document.h"

bool lh_schema_list_add(lh_schema_list *list, const json_t *schema) {
    if (lh_schema_is_trivial(schema))
        return true;
    for (size_t i = 0; i < list->count; i++)
        if (list->schemas[i] == schema)
            return true;
    if (list->count == LH_SCHEMA_LIST_MAX)
        return false;
    list->schemas[list->count++] = schema;
    return true;
}

bool lh_schema_list_is_void(const lh_schema_list *list) {
    for (size_t i = 0; i < list->count; i++)
        if (json_is_false(list->schemas[i]))
            return true;
    return false;
}
