/* Signals that mean nothing to a program that serves. Most of them would end it by default, and a
 * mistaken kill, a timer or a key of a terminal may send them. */
#pragma once

/* Ignores all that may come from outside by mistake: SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2, those of
 * timers, of descriptors and of power, that of a file which may not grow (then write(2) fails), and
 * the real-time ones; not those that somebody (a profiler)
 * has given a meaning by now. SIGHUP, SIGINT, SIGTERM and SIGPIPE stay as they are. Before the
 * program gives a meaning to some of these itself. Thread: start-up only. */
void lh_stray_signals_ignore(void);
