/* Libraries that other libraries load when they are first needed. Within the sandbox no file
 * becomes code any more, so they are loaded before it is entered, and stay. */
#pragma once

/* The name service's for hosts, as `name_services` ("/etc/nsswitch.conf") lists them; OpenSSL's
 * providers, as its configuration does; and what a thread that is cancelled needs. One that cannot
 * be loaded is left out: who wants it then does without, as where it is not installed. Thread:
 * start-up only. */
void lh_late_libraries_load(const char *name_services);
