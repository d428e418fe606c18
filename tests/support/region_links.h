/* What Yuan et al. measured between AWS regions ("Decentralized Training of Foundation Models in
 * Heterogeneous Environments", NeurIPS 2022, doi 10.48550/arXiv.2206.01288): round trip and rate.
 * Inside a region they have 2 Gbit/s; 1 ms is assumed. */
#pragma once

#include <stdint.h>

#define REGIONS 10u

extern const char *const region_names[REGIONS];

typedef struct region_link {
    double round_trip_ms, gbit_per_s;
} region_link;

/* The same both ways. */
region_link region_link_between(uint32_t a, uint32_t b);
