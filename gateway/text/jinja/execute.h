/* Statements, run one after the other. Thread: the owner's. */
#pragma once

#include "gateway/text/jinja/run.h"

/* Renders a template's statements into `out`. */
void jinja_execute(jinja_run *run, const jinja_nodes *statements, jinja_builder *out);
