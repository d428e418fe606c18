/* One member for each fact that is known. */
#include "common/protocol/host_facts_json.h"

#include "common/json/json_text.h"

json_t *lh_host_facts_render(const lh_host_facts *facts) {
    if (facts->known == 0)
        return json_null();
    json_t *object = json_object();
    for (lh_host_fact fact = 0; fact < LH_HOST_FACT_COUNT; fact++)
        if (lh_host_facts_know(facts, fact))
            object = lh_json_set(object, lh_host_fact_name(fact),
                                 json_integer(lh_host_facts_get(facts, fact)));
    return object;
}

void lh_host_facts_take(const lh_json_reader *reader, const char *field, lh_host_facts *facts) {
    lh_json_reader r;
    *facts = (lh_host_facts){0};
    if (!lh_json_is_present(reader, field) || !lh_json_read_object(reader, field, true, &r))
        return;
    for (lh_host_fact fact = 0; fact < LH_HOST_FACT_COUNT; fact++)
        if (lh_json_is_present(&r, lh_host_fact_name(fact)))
            lh_host_facts_set(facts, fact,
                              lh_json_read_integer(&r, lh_host_fact_name(fact), 0, INT64_MAX));
    if (!lh_json_is_good(&r))
        *facts = (lh_host_facts){0};
}
