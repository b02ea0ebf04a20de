# Switches of the build, and the flags that all targets share.

option(SEPAL_TESTS "Build the tests" ON)
option(SEPAL_BENCHMARKS "Build the benchmarks" ON)
option(SEPAL_FUZZ "Build the fuzz targets with libFuzzer (Clang); without it they replay their corpora" OFF)
option(SEPAL_WERROR "Warnings are errors" OFF)
option(SEPAL_UNITY "Compile the sources of a target in groups, which parses the big headers once for each group" ON)
set(SEPAL_SANITIZE "" CACHE STRING "Sanitizers for everything, as of -fsanitize: address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
# Assertions about our own invariants use SEPAL_ASSERT, which stays in every build type.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
# The sanitizers use this build type: it is optimised as far as it helps them, and has line numbers for their reports.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")

add_library(sepal_flags INTERFACE)
target_compile_options(sepal_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align -Wimplicit-fallthrough
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety -Wthread-safety-beta -Werror=thread-safety -Werror=thread-safety-beta>
  # GCC searches its memory for garbage for a tenth of its time, unless its heap may grow to so many kilobytes first.
  $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=400000>
  $<$<BOOL:${SEPAL_WERROR}>:-Werror>)
if(SEPAL_SANITIZE)
  # For tests of things that a sanitizer changes, such as touched pages.
  target_compile_definitions(sepal_flags INTERFACE SEPAL_SANITIZED)
  target_compile_options(sepal_flags INTERFACE
    -fsanitize=${SEPAL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(sepal_flags INTERFACE -fsanitize=${SEPAL_SANITIZE})
  # The check of virtual tables opens a pipe for each new type, and ends the process if no descriptor is left. Some
  # tests use up all descriptors.
  if(SEPAL_SANITIZE MATCHES undefined)
    target_compile_options(sepal_flags INTERFACE -fno-sanitize=vptr)
  endif()
endif()
if(SEPAL_FUZZ)
  # The modules are compiled with counters that guide libFuzzer; each program that links them needs this.
  target_link_options(sepal_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
