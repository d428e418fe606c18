/* What a child process comes to: for tests of what cannot be undone in a process. */
#pragma once

/* Runs body(context) in a child. Its result, which is 0..255, or minus the signal that ended it. */
int child_outcome(int (*body)(void *context), void *context);
