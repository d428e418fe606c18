/* The decimal numbers, as JSON writes them, between two bounds and of a multiple: as an automaton
 * over their digits. It is exact: numbers are compared digit by digit and never become binary.
 *
 * What it writes is bounded, as a generator without a bound could go on for ever: an integer has at
 * most 18 digits (so that it fits 64 bits), or as many as its bounds; a number with a fraction at
 * most 15 and 17 (exclusive bounds: fewer behind the point, so that two numbers that differ here
 * differ as double, too, and a reader who computes in binary finds the bound kept). There are no
 * exponents, and no -0.
 *
 * Thread: any. */
#pragma once

#include "gateway/constrain/dfa.h"

#define LH_DECIMAL_DIGITS_MAX 400

/* A decimal number, exactly: digits[integer_digits] before the point (at least one, no needless
 * zeros), then digits[fraction_digits] (the last is no zero). */
typedef struct lh_decimal {
    bool is_negative; /* never of 0 */
    uint16_t integer_digits, fraction_digits;
    char digits[LH_DECIMAL_DIGITS_MAX]; /* '0' to '9' */
} lh_decimal;

/* The shortest decimal that reads as this (finite) double, which is what its author wrote. */
lh_decimal lh_decimal_of_double(double value);
lh_decimal lh_decimal_of_integer(int64_t value);
/* < 0, 0, > 0. */
int lh_decimal_compare(const lh_decimal *a, const lh_decimal *b);

typedef struct lh_decimal_bound {
    bool is_given, is_exclusive;
    lh_decimal value;
} lh_decimal_bound;

typedef struct lh_decimal_language {
    bool integers_only;
    lh_decimal_bound least, most;
    /* Multiples of `multiple` * 10^-`multiple_places` only; 0: any number */
    uint32_t multiple, multiple_places;
} lh_decimal_language;

/* Adds a condition: multiples of this, too. LH_ERR_INVALID: not above 0; LH_ERR_LIMIT: the least
 * number that is a multiple of all has more than LH_DECIMAL_MULTIPLE_MAX units in its last place.
 */
#define LH_DECIMAL_MULTIPLE_MAX 10000u
lh_status lh_decimal_language_add_multiple(lh_decimal_language *language, const lh_decimal *of,
                                           lh_error *error);

/* Whether a number is a multiple of `multiple` * 10^-`places`. */
bool lh_decimal_is_multiple(const lh_decimal *decimal, uint32_t multiple, uint32_t places);

/* Every text of the language has label 1. *work counts on. LH_ERR_LIMIT: it needs too many states,
 * or too much work; LH_ERR_NO_MEMORY. Either way the caller resets *dfa, which was empty. */
lh_status lh_decimal_language_build(const lh_decimal_language *language, size_t *work, lh_dfa *dfa,
                                    lh_error *error);
