// SIGHUP at the begin of the program. It ends a program that has not said otherwise, and a terminal,
// logrotate or an operator may send it at any time.
#pragma once

namespace sepal::app {

// Holds SIGHUP back, for the main thread and the threads that it begins: it stays pending until StopSignal
// takes it. The loader calls this as soon as the program and its libraries are in memory, before the
// libraries set themselves up, which takes longer than all before. main() calls it again: builds with a
// sanitizer and other loaders may leave the first call out.
void hold_hang_up();

// For an invocation that serves nothing: SIGHUP ends it, as it ends other programs. So does one that was held
// back.
void release_hang_up();

}  // namespace sepal::app
