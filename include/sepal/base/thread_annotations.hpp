// Clang's thread-safety analysis, spelled once. Other compilers see nothing.
// https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#pragma once

#if defined(__clang__)
#define SEPAL_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define SEPAL_THREAD_ANNOTATION(x)
#endif

#define SEPAL_CAPABILITY(name) SEPAL_THREAD_ANNOTATION(capability(name))
#define SEPAL_SCOPED_CAPABILITY SEPAL_THREAD_ANNOTATION(scoped_lockable)
#define SEPAL_GUARDED_BY(x) SEPAL_THREAD_ANNOTATION(guarded_by(x))
#define SEPAL_PT_GUARDED_BY(x) SEPAL_THREAD_ANNOTATION(pt_guarded_by(x))
// The lock order: -Wthread-safety-beta refuses to take one of these locks while this one is held.
#define SEPAL_ACQUIRED_AFTER(...) SEPAL_THREAD_ANNOTATION(acquired_after(__VA_ARGS__))
#define SEPAL_REQUIRES(...) SEPAL_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define SEPAL_REQUIRES_SHARED(...) SEPAL_THREAD_ANNOTATION(requires_shared_capability(__VA_ARGS__))
#define SEPAL_ACQUIRE(...) SEPAL_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define SEPAL_ACQUIRE_SHARED(...) SEPAL_THREAD_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define SEPAL_RELEASE(...) SEPAL_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define SEPAL_RELEASE_SHARED(...) SEPAL_THREAD_ANNOTATION(release_shared_capability(__VA_ARGS__))
#define SEPAL_TRY_ACQUIRE(...) SEPAL_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define SEPAL_EXCLUDES(...) SEPAL_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define SEPAL_NO_THREAD_SAFETY_ANALYSIS SEPAL_THREAD_ANNOTATION(no_thread_safety_analysis)
