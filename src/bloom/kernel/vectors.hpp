// Whether the build may use vectors for bits that several threads share: SEPAL_VECTORS is 1 or 0.
//
// Other threads may set the bits that a vector loads, or load the bits that it sets. For the language these
// are races, as there are no atomic vectors. For the processor a lane of 64 bits is an aligned word within
// one cache line. It loads and stores such a word whole, in a gather and in a vector of any alignment. So
// each lane is what a relaxed atomic load or store could have been, and the kernels need no two lanes to be
// of one instant. ThreadSanitizer judges by the language, so it gets the plain kernel.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define SEPAL_VECTORS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SEPAL_VECTORS 0
#endif
#endif
#if !defined(SEPAL_VECTORS)
#define SEPAL_VECTORS 1
#endif
