/* A triangle of pairs. */
#include "tests/support/region_links.h"

const char *const region_names[REGIONS] = {"oregon",    "virginia",  "ohio",   "tokyo",
                                           "seoul",     "singapore", "sydney", "london",
                                           "frankfurt", "ireland"};

/* Milliseconds and Gbit/s, of each region to those behind it. */
static const double links[REGIONS * (REGIONS - 1) / 2][2] = {
    {67, 0.79},   {49, 1.10},   {96, 0.523},  {124, 0.46},  {163, 0.341}, {139, 0.36},
    {136, 0.42},  {143, 0.404}, {124, 0.482}, /* oregon */
    {11, 1.12},   {143, 0.524}, {172, 0.5},   {230, 0.364}, {197, 0.383}, {76, 1.16},
    {90, 1.02},   {67, 1.05}, /* virginia */
    {130, 0.694}, {159, 0.529}, {197, 0.452}, {185, 0.484}, {86, 1.05},   {99, 0.799},
    {77, 1.14},                                                                         /* ohio */
    {34, 1.1},    {73, 1.01},   {100, 0.761}, {210, 0.366}, {223, 0.36},  {199, 0.465}, /* tokyo */
    {74, 1.14},   {148, 0.58},  {238, 0.342}, {235, 0.358}, {228, 0.335},               /* seoul */
    {92, 0.816},  {169, 0.5},   {155, 0.535}, {179, 0.492}, /* singapore */
    {262, 0.326}, {265, 0.328}, {254, 0.344},               /* sydney */
    {14, 1.14},   {12, 1.09},                               /* london */
    {24, 1.08}                                              /* frankfurt */
};

region_link region_link_between(uint32_t a, uint32_t b) {
    if (a == b)
        return (region_link){1, 2};
    uint32_t low = a < b ? a : b, high = a < b ? b : a;
    const double *link = links[low * (2 * REGIONS - low - 1) / 2 + high - low - 1];
    return (region_link){link[0], link[1]};
}
