# Libraries come from the system's packages (scripts/install-dependencies); nothing is fetched by the build.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Boost 1.81 REQUIRED)   # headers only: Asio
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)

if(SEPAL_TESTS)
  find_package(Catch2 REQUIRED)     # version 2 or 3; tests/support/catch.hpp hides the difference
  pkg_check_modules(hiredis REQUIRED IMPORTED_TARGET hiredis)
  find_package(rapidcheck QUIET)
  if(NOT rapidcheck_FOUND)
    find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
    add_library(rapidcheck UNKNOWN IMPORTED)
    set_target_properties(rapidcheck PROPERTIES IMPORTED_LOCATION ${RAPIDCHECK_LIBRARY})
  endif()
endif()
if(SEPAL_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
