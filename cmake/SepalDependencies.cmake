# Libraries come from the system's packages (scripts/install-dependencies). The build fetches nothing.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS context)   # Asio and others are headers only
# Asio takes its memory by operator new then, and so from the reserve where the system has none
# (docs/decisions/0042). std::aligned_alloc() would end the process instead.
set_property(TARGET Boost::headers APPEND PROPERTY
  INTERFACE_COMPILE_DEFINITIONS BOOST_ASIO_DISABLE_STD_ALIGNED_ALLOC BOOST_ASIO_DISABLE_BOOST_ALIGN)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(hiredis REQUIRED IMPORTED_TARGET hiredis)
pkg_check_modules(murmurhash REQUIRED IMPORTED_TARGET libmurmurhash)
# As C++, Lua reports errors as exceptions. Its libraries name the other Lua in their .pc files, so all three are looked up
# here. Static: a script calls Lua's functions a hundred times, and each call of a shared library takes longer.
pkg_check_modules(lua REQUIRED lua5.1-c++)
find_library(LUA_ARCHIVE liblua5.1-c++.a REQUIRED)
find_library(LUA_CJSON_ARCHIVE liblua5.1-cjson.a REQUIRED)
find_library(LUA_BITOP_ARCHIVE liblua5.1-bitop.a REQUIRED)
# cjson calls malloc and exit. In this copy of its archive these calls have other names, and src/script/json.cpp has the
# functions.
set(SEPAL_CJSON_ARCHIVE ${CMAKE_BINARY_DIR}/libsepal-cjson.a)
set(sepal_cjson_names)
foreach(name IN ITEMS malloc realloc free exit)
  list(APPEND sepal_cjson_names --redefine-sym ${name}=sepal_json_${name})
endforeach()
execute_process(COMMAND ${CMAKE_OBJCOPY} ${sepal_cjson_names} --redefine-sym lua_next=sepal_json_next
  ${LUA_CJSON_ARCHIVE} ${SEPAL_CJSON_ARCHIVE} COMMAND_ERROR_IS_FATAL ANY)
add_library(sepal_lua INTERFACE)
target_include_directories(sepal_lua SYSTEM INTERFACE ${lua_INCLUDE_DIRS})
target_link_libraries(sepal_lua INTERFACE ${SEPAL_CJSON_ARCHIVE} ${LUA_BITOP_ARCHIVE} ${LUA_ARCHIVE} m)
# The sanitizers have allocators of their own.
add_library(sepal_allocator INTERFACE)
if(NOT SEPAL_SANITIZE)
  pkg_check_modules(jemalloc IMPORTED_TARGET jemalloc)
  if(jemalloc_FOUND)
    target_link_libraries(sepal_allocator INTERFACE PkgConfig::jemalloc)
  else()
    # Debian's libjemalloc-dev can be there for one architecture only. A build for another one uses its header, which is
    # the same for all with 64 bits, and links the library that runs.
    find_library(JEMALLOC_LIBRARY NAMES jemalloc libjemalloc.so.2 REQUIRED)
    target_link_libraries(sepal_allocator INTERFACE ${JEMALLOC_LIBRARY})
  endif()
  target_compile_definitions(sepal_allocator INTERFACE SEPAL_JEMALLOC)
endif()
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(crypto REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(ssl REQUIRED IMPORTED_TARGET libssl)

if(SEPAL_TESTS)
  find_package(Catch2 REQUIRED)     # version 2 or 3; tests/support/catch.hpp hides the difference
  pkg_check_modules(lzf REQUIRED IMPORTED_TARGET liblzf)   # packs what the tests unpack
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
