# Switches of the build, and the flags that all targets share.

option(SEPAL_TESTS "Build the tests" ON)
option(SEPAL_BENCHMARKS "Build the benchmarks" ON)
option(SEPAL_FUZZ "Build the fuzz targets with libFuzzer (Clang); without it they replay their corpora" OFF)
option(SEPAL_WERROR "Warnings are errors" OFF)
set(SEPAL_SANITIZE "" CACHE STRING "Sanitizers for everything, as of -fsanitize: address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
# Assertions about our own invariants are SEPAL_ASSERT, which no build type removes.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")

add_library(sepal_flags INTERFACE)
target_compile_options(sepal_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align -Wimplicit-fallthrough
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety -Werror=thread-safety>
  $<$<BOOL:${SEPAL_WERROR}>:-Werror>)
if(SEPAL_SANITIZE)
  target_compile_options(sepal_flags INTERFACE
    -fsanitize=${SEPAL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(sepal_flags INTERFACE -fsanitize=${SEPAL_SANITIZE})
endif()
if(SEPAL_FUZZ)
  target_compile_options(sepal_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(sepal_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
