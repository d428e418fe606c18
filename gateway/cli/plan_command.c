/* Files in, one search, a page out. */
#include "gateway/cli/plan_command.h"

#include "common/base/commands.h"
#include "common/base/terminal.h"
#include "gateway/cli/api_options.h"
#include "gateway/cli/fleet_fetch.h"
#include "gateway/cli/fleet_file_json.h"
#include "gateway/cli/plan_page.h"
#include "gateway/cli/plan_verify.h"
#include "gateway/plan/layout_deal.h"
#include "gateway/plan/team_policy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH_DEFAULT 100u

typedef struct plan_settings {
    const char *fleet, *url, *api_key_file, *save, *with, *objective, *pin, *without, *wire;
    const char *tensor_parallel;
    int64_t prompt_tokens, position, sequences, token_ms_max, replicas, requests, answer_tokens;
    int64_t context;
} plan_settings;

#define AT(field) offsetof(plan_settings, field)

static const lh_option options[] = {
    {"fleet", LH_OPTION_TEXT, AT(fleet), "", "FILE.json", 0, 0, NULL,
     "the machines, sites, links and the model; docs/OPERATING.md has its format. Default: those "
     "of "
     "a running gateway, as they have been measured"},
    LH_OPTION_API_URL(plan_settings, url),
    LH_OPTION_ADMIN_KEY_FILE(plan_settings, api_key_file),
    {"save", LH_OPTION_TEXT, AT(save), "", "FILE.json", 0, 0, NULL,
     "write what the running gateway has measured to this file, which --fleet reads"},
    {"with", LH_OPTION_TEXT, AT(with), "", "FILE.json", 0, 0, NULL,
     "further sites, links and machines, as if they were in that file: what would they bring?"},
    {"objective", LH_OPTION_CHOICE, AT(objective), "tpot", NULL, 0, 0, "ttft|tpot|throughput",
     "what the plan is to be good at: the first token of a prompt, the time per token of one "
     "sequence, or tokens a second of all"},
    {"pin", LH_OPTION_TEXT, AT(pin), "", "WORKER=FIRST-LAST,...", 0, 0, NULL,
     "these workers have these layers and no others, both ends included"},
    {"without", LH_OPTION_TEXT, AT(without), "", "WORKER,...", 0, 0, NULL,
     "these workers have no stage"},
    {"prompt-tokens", LH_OPTION_NUMBER, AT(prompt_tokens), "512", "COUNT", 1, 262144, NULL,
     "length of a prompt"},
    {"position", LH_OPTION_NUMBER, AT(position), "1024", "COUNT", 0, 10000000, NULL,
     "how many tokens stand before those that are made"},
    {"context", LH_OPTION_NUMBER, AT(context), "0", "POSITIONS", 0, 1 << 24, NULL,
     "of one sequence: every stage is to have room for its keys and values, and for a page of each "
     "other one of --sequences; 0: the room that the gateway or the file asks for"},
    {"sequences", LH_OPTION_NUMBER, AT(sequences), "8", "COUNT", 1, 4096, NULL,
     "how many answers are made at once, for throughput"},
    {"token-ms-max", LH_OPTION_NUMBER, AT(token_ms_max), "0", "MS", 0, 3600000, NULL,
     "with --objective throughput: no token of an answer may take longer; 0: no bound"},
    {"replicas", LH_OPTION_NUMBER, AT(replicas), "1", "COUNT", 1, LH_DEAL_REPLICAS_MAX, NULL,
     "chains of the model beside each other; fewer where there is no memory for so many"},
    {"tensor-parallel", LH_OPTION_CHOICE, AT(tensor_parallel), "auto", NULL, 0, 0,
     LH_TEAM_POLICY_CHOICES,
     "how many machines of a site compute each layer together, of those that may: auto: as many "
     "as are best for the objective"},
    {"wire", LH_OPTION_CHOICE, AT(wire), "f32", NULL, 0, 0, "f32|f16|q8",
     "the numbers on the wire between workers"},
    {"requests", LH_OPTION_NUMBER, AT(requests), "5", "COUNT", 1, 1000, NULL,
     "verify: how many requests are made one after the other; then --sequences at once"},
    {"answer-tokens", LH_OPTION_NUMBER, AT(answer_tokens), "64", "COUNT", 2, 100000, NULL,
     "verify: how many tokens each one asks for"},
};

const lh_option_table lh_plan_command_options = {
    .program = "longhaul-gateway plan",
    .arguments = "[verify]",
    .summary =
        "says which machines of a running fleet, or of a file, would form the best chain, with "
        "which layers and how fast, and why the others would not be used; status 0 if there "
        "is a plan, 1 if not. verify: what the chain of the running fleet was predicted to take, "
        "beside what requests to it take",
    .example = "longhaul-gateway plan --objective tpot --prompt-tokens 512",
    .options = options,
    .count = sizeof options / sizeof options[0],
};

/* ---- Files ---- */

static lh_status read_file(const char *path, char **bytes, size_t *length, lh_error *error) {
    FILE *file = fopen(path, "re");
    char *read = file ? malloc(LH_FLEET_FILE_BYTES_MAX + 1) : NULL;
    lh_status status = LH_OK;
    if (!file)
        return lh_fail(error, LH_ERR_IO, "%s: %s", path, strerror(errno));
    *length = read ? fread(read, 1, LH_FLEET_FILE_BYTES_MAX + 1, file) : 0;
    if (!read)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %s", path);
    else if (ferror(file))
        status = lh_fail(error, LH_ERR_IO, "%s: %s", path, strerror(errno));
    else if (*length > LH_FLEET_FILE_BYTES_MAX)
        status = lh_fail(error, LH_ERR_LIMIT, "%s is longer than %u MiB", path,
                         LH_FLEET_FILE_BYTES_MAX >> 20);
    fclose(file);
    if (status == LH_OK)
        *bytes = read;
    else
        free(read);
    return status;
}

static lh_status read_map(const char *path, bool is_more, lh_fleet_map *map, lh_error *error) {
    char *bytes = NULL;
    size_t length = 0;
    lh_status status = read_file(path, &bytes, &length, error);
    if (status != LH_OK)
        return status;
    status = lh_fleet_file_parse(path, bytes, length, is_more, map, error);
    free(bytes);
    return status;
}

/* ---- Lists ---- */

/* Takes the part before a comma off the list. False: there is none, or it is too long. */
static bool next_part(const char **list, char *part, size_t capacity, lh_error *error,
                      lh_status *status) {
    size_t length = strcspn(*list, ",");
    if (**list == '\0')
        return false;
    if (length >= capacity) {
        *status = lh_fail(error, LH_ERR_INVALID, "\"%.80s\" is too long", *list);
        return false;
    }
    memcpy(part, *list, length);
    part[length] = '\0';
    *list += length + ((*list)[length] == ',');
    return true;
}

static lh_map_machine *find(lh_fleet_map *map, const char *flag, const char *name,
                            lh_status *status, lh_error *error) {
    uint32_t index = lh_fleet_map_find_machine(map, name);
    if (index != UINT32_MAX)
        return &map->machines[index];
    *status = lh_fail(error, LH_ERR_INVALID, "--%s: no machine is called \"%s\"", flag, name);
    return NULL;
}

static lh_status exclude(lh_fleet_map *map, const char *list, lh_error *error) {
    char name[LH_NAME_BYTES];
    lh_status status = LH_OK;
    while (status == LH_OK && next_part(&list, name, sizeof name, error, &status)) {
        lh_map_machine *machine = find(map, "without", name, &status, error);
        if (machine)
            machine->is_excluded = true;
    }
    return status;
}

static lh_status pin(lh_fleet_map *map, const char *list, lh_error *error) {
    char part[LH_NAME_BYTES + 16];
    lh_status status = LH_OK;
    while (status == LH_OK && next_part(&list, part, sizeof part, error, &status)) {
        char *equals = strchr(part, '=');
        lh_map_layers layers;
        if (!equals || !lh_fleet_file_parse_layers(equals + 1, map->model.layers, &layers))
            return lh_fail(error, LH_ERR_INVALID,
                           "--pin: \"%s\" is not WORKER=FIRST-LAST with layers of 0-%u", part,
                           map->model.layers - 1);
        *equals = '\0';
        lh_map_machine *machine = find(map, "pin", part, &status, error);
        if (machine)
            machine->pinned = layers;
    }
    return status;
}

static lh_status write_file(const char *path, const lh_text_buffer *text, lh_error *error) {
    FILE *file = fopen(path, "we");
    bool is_written = file && fwrite(text->bytes, 1, text->length, file) == text->length;
    if (file)
        is_written &= fclose(file) == 0;
    return is_written ? LH_OK : lh_fail(error, LH_ERR_IO, "%s: %s", path, strerror(errno));
}

static lh_status ask_gateway(const plan_settings *settings, lh_fleet_map *map, lh_error *error) {
    lh_text_buffer body = {0};
    lh_status status = lh_fleet_fetch_map(settings->url, settings->api_key_file, &body, error);
    if (status == LH_OK && settings->save[0])
        status = write_file(settings->save, &body, error);
    if (status == LH_OK)
        status = lh_fleet_file_parse(settings->url, body.bytes, body.length, false, map, error);
    if (status == LH_OK && map->machine_count == 0)
        status = lh_fail(error, LH_ERR_UNAVAILABLE,
                         "%.120s: no stage has measured anything yet; see longhaul-gateway status",
                         settings->url);
    lh_text_buffer_reset(&body);
    return status;
}

static lh_status load(const plan_settings *settings, lh_fleet_map *map, lh_error *error) {
    if (settings->fleet[0] && settings->save[0])
        return lh_fail(error, LH_ERR_INVALID, "--save goes without --fleet: it writes such a file");
    lh_status status = settings->fleet[0] ? read_map(settings->fleet, false, map, error)
                                          : ask_gateway(settings, map, error);
    if (status == LH_OK && settings->with[0])
        status = read_map(settings->with, true, map, error);
    if (status == LH_OK && settings->context > 0)
        map->model.kv.pages =
            lh_kv_need_pages((uint32_t)settings->context, (uint32_t)settings->sequences);
    if (status == LH_OK)
        status = exclude(map, settings->without, error);
    if (status == LH_OK)
        status = pin(map, settings->pin, error);
    return status == LH_OK ? lh_fleet_map_check(map, error) : status;
}

/* ---- The plan ---- */

static lh_status print(const lh_plan_page *page, lh_error *error) {
    lh_text_buffer text = {0};
    lh_status status = lh_plan_page_render(page, lh_terminal_width(WIDTH_DEFAULT), &text);
    if (status != LH_OK)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the plan's page");
    else
        status = lh_text_buffer_print(&text, error);
    lh_text_buffer_reset(&text);
    return status;
}

static lh_aim aim_of(const plan_settings *settings) {
    lh_aim aim = {.prompt_rows = (uint32_t)settings->prompt_tokens,
                  .position = (uint32_t)settings->position,
                  .sequences_max = (uint32_t)settings->sequences,
                  .token_us_max = (double)settings->token_ms_max * 1000};
    lh_goal_parse(settings->objective, &aim.goal);
    lh_wire_parse(settings->wire, &aim.wire);
    return aim;
}

/* What does not belong on a stack. */
typedef struct work {
    lh_fleet_map map; /* of machines alone */
    lh_team_map *teams;
    lh_layout_deal deal;
    lh_layout_plan plan;
    lh_cost_chain costs;
    lh_idle_reason *idle;
    uint32_t *replica_of; /* [map.machine_count] */
} work;

/* Machines of other chains count as excluded while one is shown. */
static void show_only(work *w, uint32_t replica) {
    for (uint32_t m = 0; m < w->map.machine_count; m++)
        if (w->replica_of[m] != LH_DEAL_NOBODY)
            w->map.machines[m].is_excluded = w->replica_of[m] != replica;
}

static lh_status show(const lh_aim *aim, const lh_fleet_map *alone, uint32_t replica, work *w,
                      lh_error *error) {
    const lh_fleet_map *map = &w->teams->map;
    lh_plan_page page = {.alone = alone,
                         .teams = w->teams,
                         .map = map,
                         .aim = aim,
                         .plan = &w->plan,
                         .idle = w->idle,
                         .costs = &w->costs,
                         .sequences = aim->sequences_max,
                         .replica_of = w->deal.replicas > 1 ? w->replica_of : NULL,
                         .replica = replica};
    lh_status status = lh_idle_reasons_find(map, aim, &w->plan, w->idle, error);
    lh_layout_costs(&w->plan.layout, map, aim->wire, &w->costs);
    if (status == LH_OK)
        status = lh_plan_page_predict(&page, error);
    return status == LH_OK ? print(&page, error) : status;
}

/* One chain, of the machines that are its. */
static lh_status plan_chain(const plan_settings *settings, const lh_aim *aim, uint32_t replica,
                            work *w, lh_error *error) {
    const lh_team_policy policy = lh_team_policy_parse(settings->tensor_parallel);
    lh_team_sizes sizes;
    if (w->deal.replicas > 1) {
        show_only(w, replica);
        printf("%schain %u of %u\n\n", replica ? "\n" : "", replica + 1, w->deal.replicas);
    }
    lh_status status = lh_team_policy_choose(&policy, &w->map, aim, &sizes, error);
    if (status == LH_OK)
        status = lh_team_map_create(&w->map, &sizes, &w->teams, error);
    if (status == LH_OK)
        status = lh_layout_search(&w->teams->map, aim, &w->plan, error);
    if (status == LH_OK)
        status = show(aim, &w->map, replica, w, error);
    lh_team_map_destroy(w->teams);
    w->teams = NULL;
    return status;
}

static lh_status deal(const plan_settings *settings, const lh_aim *aim, work *w, lh_error *error) {
    w->deal.replicas = 1;
    return settings->replicas > 1 ? lh_layout_deal_make(&w->map, aim, (uint32_t)settings->replicas,
                                                        w->replica_of, &w->deal, error)
                                  : LH_OK;
}

static lh_status plan(const plan_settings *settings, work *w, lh_error *error) {
    const lh_aim aim = aim_of(settings);
    lh_status status = load(settings, &w->map, error);
    if (status != LH_OK)
        return status;
    w->idle = calloc(w->map.machine_count, sizeof *w->idle);
    w->replica_of = calloc(w->map.machine_count, sizeof *w->replica_of);
    if (!w->idle || !w->replica_of)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the plan's page");
    status = deal(settings, &aim, w, error);
    for (uint32_t r = 0; r < w->deal.replicas && status == LH_OK; r++)
        status = plan_chain(settings, &aim, r, w, error);
    return status;
}

/* Predicted beside measured. */
static lh_status verify(const plan_settings *settings, work *w, lh_error *error) {
    const lh_verify_options asked = {.url = settings->url,
                                     .api_key_file = settings->api_key_file,
                                     .prompt_tokens = (uint32_t)settings->prompt_tokens,
                                     .answer_tokens = (uint32_t)settings->answer_tokens,
                                     .requests = (uint32_t)settings->requests,
                                     .sequences = (uint32_t)settings->sequences};
    if (settings->fleet[0])
        return lh_fail(error, LH_ERR_INVALID,
                       "plan verify asks a running gateway: it takes no --fleet");
    lh_status status = load(settings, &w->map, error);
    return status == LH_OK
               ? lh_plan_verify(&asked, &w->map, lh_terminal_width(WIDTH_DEFAULT), error)
               : status;
}

/* Whether the first word behind "plan" is "verify", which is taken out. */
static bool take_verify(int *argc, char **argv) {
    if (*argc < 3 || strcmp(argv[2], "verify") != 0)
        return false;
    memmove(argv + 2, argv + 3, (size_t)(*argc - 3) * sizeof *argv);
    --*argc;
    return true;
}

int lh_plan_command(int argc, char **argv) {
    plan_settings settings;
    lh_error error = {0};
    int code;
    bool verifies = take_verify(&argc, argv);
    if (!lh_command_take_flags(&lh_plan_command_options, argc - 1, argv + 1, &settings, &code))
        return code;
    work *w = calloc(1, sizeof *w);
    lh_status status = !w         ? lh_fail(&error, LH_ERR_NO_MEMORY, "no memory to plan")
                       : verifies ? verify(&settings, w, &error)
                                  : plan(&settings, w, &error);
    if (w) {
        free(w->replica_of);
        free(w->idle);
        lh_fleet_file_reset(&w->map);
        free(w);
    }
    return lh_command_finish(&lh_plan_command_options, status, &error);
}
