/* A walk through the schemas that hold without going into the value, which parts at each "anyOf".
 */
#include "gateway/constrain/schema_clause.h"

#include "common/base/growing_array.h"

#include <stdlib.h>
#include <string.h>

/* A schema that holds, and is to be looked at. On the stack of the function that found it. */
typedef struct step {
    const json_t *schema;
    const struct step *cause; /* the schema because of which it holds */
    const struct step *next;  /* what else is to be looked at */
} step;

typedef struct walk {
    const lh_schema_document *document;
    lh_schema_clauses *clauses;
    size_t steps, depth;
} walk;

static void look(walk *of, const step *at, const lh_schema_clause *so_far);

static void add_clause(walk *of, const lh_schema_clause *clause) {
    lh_schema_clauses *clauses = of->clauses;
    lh_grammar *grammar = of->document->grammar;
    if (clauses->count == LH_SCHEMA_CLAUSES_MAX) {
        lh_schema_refuse(of->document, clause->all.count ? clause->all.schemas[0] : NULL, NULL,
                         LH_ERR_LIMIT, "has more than %u alternatives", LH_SCHEMA_CLAUSES_MAX);
        return;
    }
    if (!lh_growing_array_reserve(&clauses->clauses, &clauses->capacity, clauses->count + 1,
                                  sizeof *clauses->clauses)) {
        lh_grammar_fail(grammar, LH_ERR_NO_MEMORY, "no memory for a schema's alternatives");
        return;
    }
    clauses->clauses[clauses->count++] = *clause;
}

/* "$ref" leads to a schema that holds because of itself: nothing is said, and JSON Schema forbids
 * it. */
static bool is_endless(walk *of, const step *at) {
    for (const step *cause = at->cause; cause; cause = cause->cause)
        if (cause->schema == at->schema)
            lh_schema_refuse(of->document, at->schema, NULL, LH_ERR_INVALID,
                             "leads back to itself without going into the value");
    if (of->depth > LH_SCHEMA_CHAIN_MAX || ++of->steps > LH_SCHEMA_STEPS_MAX)
        lh_schema_refuse(of->document, at->schema, NULL, LH_ERR_LIMIT,
                         "is made of too many schemas");
    return !lh_schema_count_work(of->document, at->schema, 100);
}

/* Of "anyOf", then of "oneOf": each alternative with the rest. */
static void part(walk *of, const json_t *list, const step *at, const step *rest,
                 const lh_schema_clause *so_far) {
    for (size_t i = 0; i < json_array_size(list) && lh_schema_document_is_good(of->document); i++) {
        const step option = {json_array_get(list, i), at, rest};
        look(of, &option, so_far);
    }
}

static void look_at_alternatives(walk *of, const step *at, const step *rest,
                                 const lh_schema_clause *so_far) {
    const json_t *any = lh_schema_get_list(of->document, at->schema, "anyOf"),
                 *one = lh_schema_get_list(of->document, at->schema, "oneOf");
    if (!any && !one) {
        look(of, rest, so_far);
        return;
    }
    if (!any || !one) {
        part(of, any ? any : one, at, rest, so_far);
        return;
    }
    for (size_t i = 0; i < json_array_size(any); i++) {
        const step option = {json_array_get(any, i), at, rest};
        part(of, one, at, &option, so_far);
    }
}

/* The first `count` of "allOf", in their order, behind them the rest; before them the reference. */
static void look_at_parts(walk *of, const step *at, size_t count, const step *rest,
                          const lh_schema_clause *so_far) {
    const json_t *all = lh_schema_get_list(of->document, at->schema, "allOf");
    if (count > 0) {
        const step one = {json_array_get(all, count - 1), at, rest};
        look_at_parts(of, at, count - 1, &one, so_far);
        return;
    }
    if (!json_object_get(at->schema, "$ref")) {
        look_at_alternatives(of, at, rest, so_far);
        return;
    }
    const step target = {lh_schema_resolve(of->document, at->schema), at, rest};
    if (target.schema)
        look_at_alternatives(of, at, &target, so_far);
}

static bool has_own_keywords(const json_t *schema) {
    static const char *const others[] = {"$ref", "allOf", "anyOf", "oneOf"};
    size_t count = lh_schema_keywords(schema);
    for (size_t i = 0; i < 4; i++)
        count -= json_object_get(schema, others[i]) != NULL;
    return count > 0;
}

static bool has(const lh_schema_list *list, const json_t *schema) {
    for (size_t i = 0; i < list->count; i++)
        if (list->schemas[i] == schema)
            return true;
    return false;
}

static void take(walk *of, const step *at, const lh_schema_clause *so_far) {
    lh_schema_clause clause = *so_far;
    size_t parts = json_array_size(json_object_get(at->schema, "allOf"));
    clause.types &= lh_schema_get_types(of->document, at->schema);
    if (clause.types == 0)
        return;
    if (parts > LH_SCHEMA_LIST_MAX ||
        (has_own_keywords(at->schema) && !lh_schema_list_add(&clause.all, at->schema)))
        lh_schema_refuse(of->document, at->schema, NULL, LH_ERR_LIMIT,
                         "is one of more than %d schemas for one value", LH_SCHEMA_LIST_MAX);
    else
        look_at_parts(of, at, parts, at->next, &clause);
}

static void look(walk *of, const step *at, const lh_schema_clause *so_far) {
    if (!lh_schema_document_is_good(of->document))
        return;
    of->depth++;
    if (!at)
        add_clause(of, so_far);
    else if (is_endless(of, at) || !lh_schema_check_keywords(of->document, at->schema) ||
             json_is_false(at->schema))
        ; /* refused, or no value satisfies this alternative */
    else if (has(&so_far->all, at->schema))
        look(of, at->next, so_far);
    else
        take(of, at, so_far);
    of->depth--;
}

void lh_schema_clauses_find(const lh_schema_document *document, const lh_schema_list *all,
                            lh_schema_clauses *clauses) {
    walk of = {.document = document, .clauses = clauses};
    const lh_schema_clause nothing = {.types = LH_SCHEMA_ANY};
    step steps[LH_SCHEMA_LIST_MAX];
    for (size_t i = 0; i < all->count; i++)
        steps[i] = (step){all->schemas[i], NULL, i + 1 < all->count ? &steps[i + 1] : NULL};
    look(&of, all->count > 0 ? steps : NULL, &nothing);
}

void lh_schema_clauses_reset(lh_schema_clauses *clauses) {
    free(clauses->clauses);
    *clauses = (lh_schema_clauses){0};
}
