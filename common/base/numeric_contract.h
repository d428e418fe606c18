/* Which bits an answer has. */
#pragma once

/* The version of how numbers are made, where bits depend on it and nothing else says so: kernels.h
 * (2: attention in blocks of keys), and how tokens are drawn. Part of what a system_fingerprint
 * stands for. */
#define LH_NUMERIC_CONTRACT 2u
