# A source whose functions run for every request is compiled alone: where other sources join its group, GCC inlines less
# of it.
set(SEPAL_HOT_SOURCES command/bloom/bloom_commands.cpp command/table/command_table.cpp command/run/dispatcher.cpp
    command/run/together.cpp)
list(TRANSFORM SEPAL_HOT_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/src/)
set_source_files_properties(${SEPAL_HOT_SOURCES} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# A test that links a file of its own in its place must not get the rest of a group with it.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/command/table/families.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# Its class of the header has parts of unnamed types, of which GCC warns in a group.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/http/server.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# Compiles a target's sources in groups. Headers take most of the time (Asio, spdlog, CLI11, Catch2), and a group reads
# each header once. So names that are local to a source must be unique in its module; each source of a test has its own
# namespace. Groups are small enough that several cores share a target, and that a change compiles quickly.
function(sepal_compile_in_groups target group_size)
  if(SEPAL_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${group_size})
  endif()
endfunction()

# Of what is shipped: a write beyond a buffer whose size the compiler knows ends the program, and the tables of addresses that
# the loader fills cannot be written afterwards. Debian's GCC makes programs of which each part may be at any address
# (PIE) by itself. Tests are compiled without optimisation, where the first does nothing but warn.
function(sepal_harden target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-U_FORTIFY_SOURCE> $<$<CONFIG:Release>:-D_FORTIFY_SOURCE=2>)
  target_link_options(${target} PRIVATE $<$<CONFIG:Release>:-Wl,-z,relro,-z,now>)
endfunction()

# One static library for each module: the sources in src/<name> without a main.cpp, and the headers in include/sepal/<name>.
#   sepal_module(<name> [USES <module>...] [FIRST <pattern>] [LIBRARIES <target>...])
# The sources whose names match FIRST share the first group: they read the same large header.
function(sepal_module name)
  cmake_parse_arguments(ARG "" "FIRST" "USES;LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(ARG_FIRST)
    set(first ${sources})
    list(FILTER first INCLUDE REGEX ${ARG_FIRST})
    list(PREPEND sources ${first})
    list(REMOVE_DUPLICATES sources)
  endif()
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/sepal/${name}/*.hpp)
  list(TRANSFORM ARG_USES PREPEND sepal_)
  if(sources)
    add_library(sepal_${name} STATIC ${sources})
    sepal_compile_in_groups(sepal_${name} 12)
    sepal_harden(sepal_${name})
    target_include_directories(sepal_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)  # its private headers
    # Counters that guide libFuzzer. The tests are compiled without them, which takes a seventh less time.
    if(SEPAL_FUZZ)
      target_compile_options(sepal_${name} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
    set(scope PUBLIC)
  else()
    add_library(sepal_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  # Every header compiles alone: the target all_verify_interface_header_sets checks it.
  target_sources(sepal_${name} ${scope} FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${headers})
  set_target_properties(sepal_${name} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  target_link_libraries(sepal_${name} ${scope} sepal_flags ${ARG_USES} ${ARG_LIBRARIES})
  if(name STREQUAL base)
    target_link_libraries(sepal_base PUBLIC PkgConfig::xxhash PkgConfig::crypto Threads::Threads)
    target_compile_definitions(sepal_base PUBLIC SEPAL_VERSION="${PROJECT_VERSION}")
  endif()
endfunction()

# A program, and <name>_objects, which another program links to be the same with lists of its own (kinds, families).
#   sepal_program(<name> SOURCES <folder> [USES <module>...] [LIBRARIES <target>...])
function(sepal_program name)
  cmake_parse_arguments(ARG "" "SOURCES" "USES;LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${ARG_SOURCES}/*.cpp)
  list(TRANSFORM ARG_USES PREPEND sepal_)
  add_library(${name}_objects OBJECT ${sources})
  sepal_compile_in_groups(${name}_objects 12)
  sepal_harden(${name}_objects)
  target_include_directories(${name}_objects PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name}_objects PUBLIC sepal_flags ${ARG_USES} ${ARG_LIBRARIES})
  add_executable(${name})
  sepal_harden(${name})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name} PRIVATE ${name}_objects)
endfunction()

# sepal.so, which a server loads. It has the modules that it uses in itself, and shows the server nothing but the function
# that loads it. A server without a sanitizer's library cannot load what has one.
#   sepal_plugin(<name> SOURCES <folder> USES <module>... BELOW <module>...)   BELOW: the modules that these use
function(sepal_plugin name)
  cmake_parse_arguments(ARG "" "SOURCES" "USES;BELOW" ${ARGN})
  if(SEPAL_SANITIZE)
    return()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${ARG_SOURCES}/*.cpp)
  add_library(${name} MODULE ${sources})
  sepal_compile_in_groups(${name} 12)
  sepal_harden(${name})
  # One compile serves the programs and the plugin. No other library replaces its functions, so they are inlined and
  # called as in a program.
  set(modules ${ARG_USES} ${ARG_BELOW})
  foreach(module IN LISTS modules)
    set_target_properties(sepal_${module} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_options(sepal_${module} PRIVATE -fno-semantic-interposition)
  endforeach()
  list(TRANSFORM modules PREPEND sepal_)
  set(symbols ${PROJECT_SOURCE_DIR}/cmake/${name}.map)
  set_target_properties(${name} PROPERTIES PREFIX "" OUTPUT_NAME sepal LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS ${symbols})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE sepal_flags ${modules})
  target_link_options(${name} PRIVATE -Wl,--no-undefined -Wl,--as-needed -Wl,--version-script=${symbols})
endfunction()

# The tested program is compiled as it is shipped, but most tests are not: it would take longer to optimise them than to run
# them.
function(sepal_set_test_flags target)
  target_compile_options(${target} PRIVATE -O0 $<$<CONFIG:Release>:-g0>)
  target_link_libraries(${target} PRIVATE sepal_flags)
endfunction()

# A Catch2 program and its ctest entry.
#   sepal_test(<name> SOURCES <file>... [USES <module>...] [LIBRARIES <target>...] [LABELS <label>...]
#              [OPTIMISED] [FEW_THREADS])
# The label "threads" marks tests with several threads, which run under ThreadSanitizer. OPTIMISED: its own loops take long.
# FEW_THREADS: most cases have one thread; ThreadSanitizer runs those with the tag [threads].
function(sepal_test name)
  cmake_parse_arguments(ARG "OPTIMISED;FEW_THREADS" "" "SOURCES;USES;LIBRARIES;LABELS" ${ARGN})
  list(TRANSFORM ARG_USES PREPEND sepal_)
  add_executable(${name} ${ARG_SOURCES})
  sepal_compile_in_groups(${name} 24)
  sepal_set_test_flags(${name})
  if(ARG_OPTIMISED)
    target_compile_options(${name} PRIVATE -O1)
  elseif(TARGET sepal_test_headers AND NOT sepal_tools IN_LIST ARG_USES)  # hiredis defines _FILE_OFFSET_BITS
    target_precompile_headers(${name} REUSE_FROM sepal_test_headers)
  endif()
  target_link_libraries(${name} PRIVATE sepal_catch_main ${ARG_USES} ${ARG_LIBRARIES})
  # Some tests look at private headers: "module/folder/file.hpp".
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/src)
  # AddressSanitizer leaves out [unsanitized]: cases that take long, of code that other cases run too. ThreadSanitizer leaves out
  # [exhaustive]: they try every byte of a file in one thread.
  set(cases)
  if(SEPAL_SANITIZE MATCHES address)
    set(cases "~[unsanitized]~[.]")
  endif()
  if(SEPAL_SANITIZE STREQUAL thread)
    set(cases "~[exhaustive]~[.]")  # without the second, hidden cases would run
    if(ARG_FEW_THREADS)
      set(cases "[threads]${cases}")
    endif()
  endif()
  add_test(NAME ${name} COMMAND ${name} ${cases})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  if(threads IN_LIST ARG_LABELS)
    add_dependencies(tests_with_threads ${name})
  endif()
endfunction()

# The fuzz targets fuzz_<name>: with SEPAL_FUZZ each is a libFuzzer program. Otherwise one program has all of them, and
# replays the corpus of the target that it is told. ctest replays each corpus of tests/fuzz/corpus/ in both builds.
#   sepal_fuzz_target(<name> SOURCES <file>... [USES <module>...])
function(sepal_fuzz_target name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES" ${ARGN})
  list(TRANSFORM ARG_USES PREPEND sepal_)
  set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  if(SEPAL_FUZZ)
    add_executable(${name} ${ARG_SOURCES})
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
    target_link_libraries(${name} PRIVATE sepal_flags ${ARG_USES})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/src)
    add_test(NAME ${name}_corpus COMMAND ${name} -runs=0 ${corpus})
  else()
    target_sources(fuzz_replay PRIVATE ${ARG_SOURCES})
    target_link_libraries(fuzz_replay PRIVATE ${ARG_USES})
    add_test(NAME ${name}_corpus COMMAND fuzz_replay ${name} ${corpus})
  endif()
  set_tests_properties(${name}_corpus PROPERTIES LABELS fuzz)
endfunction()
