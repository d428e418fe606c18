/* The tables, by what the filters work on. */
#include "gateway/text/jinja/filters.h"

const jinja_entry_point *jinja_filter_find(jinja_text name) {
    const jinja_entry_point *const tables[] = {jinja_text_filters, jinja_list_filters,
                                               jinja_item_filters};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        const jinja_entry_point *found = jinja_entry_point_find(tables[i], name);
        if (found)
            return found;
    }
    return NULL;
}
