/* The states of a text are told by what it is so far: how many digits, how it compares with what
 * stands at the same place of the bounds, its remainder. They are found from the start on, each
 * once. A negative number is compared as its magnitude with the bounds' negatives. */
#include "gateway/constrain/decimal_language.h"

#include "common/base/growing_array.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every integer of so many digits fits int64_t, and every one of so many digits a double. */
#define INTEGER_DIGITS_MAX 18
#define EXACT_DIGITS       15
#define FRACTION_DIGITS    17
/* From here on doubles are integers, and their shortest decimal need not be their value. */
#define FIRST_INTEGER_ONLY 9007199254740992.0

/* ---- Decimals. ---- */

/* From text: "-12.034", with or without sign and point. */
static lh_decimal read_decimal(const char *text) {
    lh_decimal decimal = {.is_negative = *text == '-'};
    text += decimal.is_negative;
    const char *point = strchr(text, '.');
    size_t integers = point ? (size_t)(point - text) : strlen(text);
    size_t fractions = point ? strlen(point + 1) : 0;
    while (fractions > 0 && point[fractions] == '0')
        fractions--;
    assert(integers + fractions <= LH_DECIMAL_DIGITS_MAX);
    memcpy(decimal.digits, text, integers);
    if (fractions)
        memcpy(decimal.digits + integers, point + 1, fractions);
    decimal.integer_digits = (uint16_t)integers;
    decimal.fraction_digits = (uint16_t)fractions;
    decimal.is_negative &= fractions > 0 || integers > 1 || decimal.digits[0] != '0';
    return decimal;
}

lh_decimal lh_decimal_of_integer(int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return read_decimal(text);
}

/* Digits of the shortest scientific form that reads as the value. */
static int shortest_precision(double value) {
    char text[40];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, value);
        if (strtod(text, NULL) == value)
            return precision;
    }
    return 17;
}

lh_decimal lh_decimal_of_double(double value) {
    char text[LH_DECIMAL_DIGITS_MAX + 16], exponent[40];
    assert(isfinite(value));
    if (fabs(value) >= FIRST_INTEGER_ONLY) {
        snprintf(text, sizeof text, "%.0f", value);
        return read_decimal(text);
    }
    int precision = shortest_precision(value);
    snprintf(exponent, sizeof exponent, "%.*e", precision, value);
    int places = precision - atoi(strchr(exponent, 'e') + 1);
    snprintf(text, sizeof text, "%.*f", places > 0 ? places : 0, value);
    return read_decimal(text);
}

static int digit_at(const lh_decimal *decimal, size_t place) {
    return place < (size_t)decimal->integer_digits + decimal->fraction_digits
               ? decimal->digits[place]
               : '0';
}

static int compare_magnitudes(const lh_decimal *a, const lh_decimal *b) {
    if (a->integer_digits != b->integer_digits)
        return a->integer_digits < b->integer_digits ? -1 : 1;
    for (size_t place = 0; place < LH_DECIMAL_DIGITS_MAX; place++)
        if (digit_at(a, place) != digit_at(b, place))
            return digit_at(a, place) < digit_at(b, place) ? -1 : 1;
    return 0;
}

int lh_decimal_compare(const lh_decimal *a, const lh_decimal *b) {
    if (a->is_negative != b->is_negative)
        return a->is_negative ? -1 : 1;
    return a->is_negative ? compare_magnitudes(b, a) : compare_magnitudes(a, b);
}

/* ---- Multiples. ---- */

static uint64_t power_of_ten(uint32_t exponent) {
    uint64_t power = 1;
    while (exponent-- > 0 && power <= LH_DECIMAL_MULTIPLE_MAX)
        power *= 10;
    return power;
}

/* The number without its point; above the limit where it is above it. */
static uint64_t units_of(const lh_decimal *decimal) {
    uint64_t units = 0;
    for (size_t i = 0; i < (size_t)decimal->integer_digits + decimal->fraction_digits; i++)
        if (units <= LH_DECIMAL_MULTIPLE_MAX)
            units = 10 * units + (uint64_t)(decimal->digits[i] - '0');
    return units;
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b > 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

lh_status lh_decimal_language_add_multiple(lh_decimal_language *language, const lh_decimal *of,
                                           lh_error *error) {
    uint64_t units = units_of(of), others = 1, least;
    uint32_t places = of->fraction_digits > language->multiple_places ? of->fraction_digits
                                                                      : language->multiple_places;
    if (of->is_negative || units == 0)
        return lh_fail(error, LH_ERR_INVALID, "must be above 0");
    units *= power_of_ten(places - of->fraction_digits);
    if (language->multiple)
        others = language->multiple * power_of_ten(places - language->multiple_places);
    least = units / common_divisor(units, others) * others;
    if (units > LH_DECIMAL_MULTIPLE_MAX || others > LH_DECIMAL_MULTIPLE_MAX ||
        least > LH_DECIMAL_MULTIPLE_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "is followed up to %u units of its last place",
                       LH_DECIMAL_MULTIPLE_MAX);
    language->multiple = (uint32_t)least;
    language->multiple_places = places;
    return LH_OK;
}

bool lh_decimal_is_multiple(const lh_decimal *decimal, uint32_t multiple, uint32_t places) {
    uint64_t remainder = 0;
    if (decimal->fraction_digits > places)
        return false;
    for (size_t i = 0; i < (size_t)decimal->integer_digits + places; i++)
        remainder = (remainder * 10 + (uint64_t)(digit_at(decimal, i) - '0')) % multiple;
    return remainder == 0;
}

/* ---- The states. ---- */

typedef enum decimal_phase { BEGIN, SIGN, ZERO, INTEGER, POINT, FRACTION } decimal_phase;

/* What a text is so far. Without padding, as it is hashed. */
typedef struct decimal_state {
    uint8_t phase, is_negative;
    /* How its digits compare with those at the same places of the bounds: < 0, 0, > 0. */
    int8_t to_least, to_most;
    uint16_t digits; /* of the integer, or behind the point */
    uint16_t remainder;
} decimal_state;

typedef struct explorer {
    const lh_decimal_language *language;
    /* Of the magnitude; [1]: of a negative number's. */
    lh_decimal_bound least[2], most[2];
    bool has_sign[2];
    uint16_t integer_digits_max, fraction_digits_max;
    lh_dfa *dfa;
    decimal_state *states; /* of the automaton's states */
    size_t capacity;
    uint32_t *table; /* [TABLE_SIZE] by what a state is; 0: empty, as nothing leads to the start */
} explorer;

#define TABLE_SIZE 131072u
_Static_assert(TABLE_SIZE > 2 * LH_DFA_STATES_MAX, "half of the table stays empty");

static int8_t relation(int digit, int other) {
    return (int8_t)((digit > other) - (digit < other));
}

/* So far equal or not, one digit more at this place of the integer or the fraction. */
static int8_t relate(const lh_decimal_bound *bound, const decimal_state *from, int8_t so_far,
                     int digit) {
    const lh_decimal *value = &bound->value;
    size_t place = from->phase == POINT || from->phase == FRACTION
                       ? (size_t)value->integer_digits + from->digits
                       : from->digits;
    return so_far || !bound->is_given ? so_far : relation(digit, digit_at(value, place));
}

/* An integer of more digits is the greater one. */
static int8_t relate_integer(const lh_decimal_bound *bound, const decimal_state *from,
                             int8_t so_far) {
    if (from->digits == bound->value.integer_digits || !bound->is_given)
        return so_far;
    return from->digits < bound->value.integer_digits ? -1 : 1;
}

/* Where the text ends, all other digits are 0. */
static int8_t relate_end(const lh_decimal_bound *bound, const decimal_state *from, int8_t so_far) {
    bool is_integer = from->phase != FRACTION;
    int8_t known = is_integer ? relate_integer(bound, from, so_far) : so_far;
    size_t fractions = is_integer ? 0 : from->digits;
    return known == 0 && fractions < bound->value.fraction_digits ? -1 : known;
}

static bool is_within(const explorer *work, const decimal_state *state) {
    const lh_decimal_bound *least = &work->least[state->is_negative],
                           *most = &work->most[state->is_negative];
    int to_least = relate_end(least, state, state->to_least),
        to_most = relate_end(most, state, state->to_most);
    return (!least->is_given || to_least > 0 || (to_least == 0 && !least->is_exclusive)) &&
           (!most->is_given || to_most < 0 || (to_most == 0 && !most->is_exclusive));
}

static bool is_multiple(const explorer *work, const decimal_state *state) {
    const lh_decimal_language *language = work->language;
    uint64_t remainder = state->remainder;
    for (uint32_t i = state->phase == FRACTION ? state->digits : 0;
         i < language->multiple_places && remainder; i++)
        remainder = remainder * 10 % language->multiple;
    return remainder == 0;
}

static bool is_accepted(const explorer *work, const decimal_state *state) {
    bool is_whole = state->phase == INTEGER || state->phase == FRACTION ||
                    (state->phase == ZERO && !state->is_negative);
    return is_whole && is_within(work, state) && is_multiple(work, state);
}

/* False: the language has no text that goes on so. */
static bool take_digit(const explorer *work, const decimal_state *from, int digit,
                       decimal_state *to) {
    const lh_decimal_language *language = work->language;
    bool is_fraction = from->phase == POINT || from->phase == FRACTION;
    bool is_unit = !is_fraction || from->digits < language->multiple_places;
    if (from->phase == ZERO ||
        from->digits >= (is_fraction ? work->fraction_digits_max : work->integer_digits_max) ||
        (language->multiple && !is_unit && digit != '0'))
        return false;
    *to = *from;
    to->to_least = relate(&work->least[from->is_negative], from, from->to_least, digit);
    to->to_most = relate(&work->most[from->is_negative], from, from->to_most, digit);
    to->digits++;
    to->phase = is_fraction ? FRACTION : INTEGER;
    if (from->phase < ZERO && digit == '0')
        to->phase = ZERO;
    if (language->multiple && is_unit)
        to->remainder =
            (uint16_t)((from->remainder * 10u + (uint32_t)(digit - '0')) % language->multiple);
    return true;
}

static bool take_point(const explorer *work, const decimal_state *from, decimal_state *to) {
    if ((from->phase != ZERO && from->phase != INTEGER) || work->fraction_digits_max == 0 ||
        from->digits > EXACT_DIGITS)
        return false;
    *to = *from;
    to->to_least = relate_integer(&work->least[from->is_negative], from, from->to_least);
    to->to_most = relate_integer(&work->most[from->is_negative], from, from->to_most);
    to->phase = POINT;
    to->digits = 0;
    return true;
}

static bool take(const explorer *work, const decimal_state *from, int character,
                 decimal_state *to) {
    if (character == '.')
        return take_point(work, from, to);
    if (character == '-') {
        *to = (decimal_state){.phase = SIGN, .is_negative = 1};
        return from->phase == BEGIN && work->has_sign[1];
    }
    return (from->phase != BEGIN || work->has_sign[0]) && take_digit(work, from, character, to);
}

/* ---- Exploring. ---- */

/* To make a state: 12 characters are tried, each found in the table. */
#define STEPS 40

static size_t slot_of(const explorer *work, const decimal_state *state) {
    uint64_t bits;
    _Static_assert(sizeof *state == sizeof bits, "a state is its bits");
    memcpy(&bits, state, sizeof bits);
    size_t slot = (bits * 0x9e3779b97f4a7c15u >> 40) % TABLE_SIZE;
    while (work->table[slot] && memcmp(&work->states[work->table[slot]], state, sizeof *state) != 0)
        slot = (slot + 1) % TABLE_SIZE;
    return slot;
}

static lh_status add_state(explorer *work, const decimal_state *state, lh_error *error) {
    if (!lh_growing_array_reserve(&work->states, &work->capacity, work->dfa->state_count + 1,
                                  sizeof *work->states))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a range of numbers");
    work->states[work->dfa->state_count] = *state;
    return lh_dfa_add_state(work->dfa, is_accepted(work, state), error);
}

static lh_status explore(explorer *work, lh_error *error) {
    lh_status status = add_state(work, &(decimal_state){.phase = BEGIN}, error);
    for (uint32_t s = 0; s < work->dfa->state_count && !status; s++)
        for (const char *at = "-.0123456789"; *at && !status; at++) {
            const decimal_state from = work->states[s];
            decimal_state to;
            if (!take(work, &from, *at, &to))
                continue;
            size_t slot = slot_of(work, &to);
            if (!work->table[slot]) {
                work->table[slot] = (uint32_t)work->dfa->state_count;
                status = add_state(work, &to, error);
            }
            if (!status)
                status = lh_dfa_add_edge(work->dfa, s, (uint32_t)*at, (uint32_t)*at,
                                         work->table[slot], error);
        }
    return status;
}

/* ---- What the bounds are for magnitudes. ---- */

static bool is_zero(const lh_decimal *decimal) {
    return decimal->integer_digits == 1 && decimal->digits[0] == '0' &&
           decimal->fraction_digits == 0;
}

static lh_decimal_bound magnitude(const lh_decimal_bound *bound) {
    lh_decimal_bound of = *bound;
    of.value.is_negative = false;
    return of;
}

static void set_bounds(explorer *work) {
    const lh_decimal_bound *least = &work->language->least, *most = &work->language->most;
    bool least_is_below = least->value.is_negative, most_is_below = most->value.is_negative;
    if (least->is_given && !least_is_below)
        work->least[0] = *least;
    if (most->is_given && !most_is_below)
        work->most[0] = *most;
    if (most->is_given && (most_is_below || is_zero(&most->value)))
        work->least[1] = magnitude(most);
    if (least->is_given && (least_is_below || is_zero(&least->value)))
        work->most[1] = magnitude(least);
    work->has_sign[0] = !most->is_given || !most_is_below;
    work->has_sign[1] = !least->is_given || least_is_below || is_zero(&least->value);
}

static uint16_t digits_before(const lh_decimal_bound *bound) {
    return bound->is_given ? bound->value.integer_digits : 0;
}

static uint16_t greater(uint16_t a, uint16_t b) {
    return a > b ? a : b;
}

static void set_lengths(explorer *work) {
    const lh_decimal_language *language = work->language;
    uint16_t least = digits_before(&language->least), most = digits_before(&language->most);
    uint16_t exclusive =
        greater(language->least.is_exclusive ? least : 0, language->most.is_exclusive ? most : 0);
    work->integer_digits_max = greater(INTEGER_DIGITS_MAX, greater(least, most));
    work->fraction_digits_max = FRACTION_DIGITS;
    if (exclusive)
        work->fraction_digits_max =
            exclusive < EXACT_DIGITS ? (uint16_t)(EXACT_DIGITS - exclusive) : 0;
    if (language->multiple && language->multiple_places < work->fraction_digits_max)
        work->fraction_digits_max = greater(1, (uint16_t)language->multiple_places);
    if (language->integers_only)
        work->fraction_digits_max = 0;
}

lh_status lh_decimal_language_build(const lh_decimal_language *language, size_t *work, lh_dfa *dfa,
                                    lh_error *error) {
    explorer all = {.language = language, .dfa = dfa};
    lh_status status = lh_dfa_count_work(work, TABLE_SIZE / 16, error);
    if (status)
        return status;
    set_bounds(&all);
    set_lengths(&all);
    all.table = calloc(TABLE_SIZE, sizeof *all.table);
    status = all.table ? explore(&all, error)
                       : lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a range of numbers");
    free(all.states);
    free(all.table);
    if (!status)
        status = lh_dfa_count_work(work, STEPS * dfa->state_count, error);
    return status ? status : lh_dfa_simplify(dfa, error);
}
