# The git commit of the sources, in one small file that only the programs link. Two uses:
#
#   include(SepalCommit)   defines the target sepal_commit
#   cmake -DSOURCE=... -DOUTPUT=... -P SepalCommit.cmake   writes the file, if its contents change
#
# git writes .git/logs/HEAD at every commit, checkout and rebase: the build reads the commit again if that file is newer.
# A folder that is not the root of a git work tree (perhaps inside another repository) has the commit that `git archive`
# writes into commit.txt; without it, none.

function(sepal_read_commit source result)
  set(archived)
  if(EXISTS ${source}/cmake/commit.txt)
    file(STRINGS ${source}/cmake/commit.txt archived REGEX "^[0-9a-f]+$")
  endif()
  string(SUBSTRING "${archived}" 0 12 archived)
  set(${result} "${archived}" PARENT_SCOPE)
  find_program(SEPAL_GIT git)
  if(NOT SEPAL_GIT)
    return()
  endif()
  execute_process(COMMAND ${SEPAL_GIT} -C ${source} rev-parse --show-cdup --short=12 HEAD
                  OUTPUT_VARIABLE lines RESULT_VARIABLE status ERROR_QUIET)
  # The output is an empty line, because `source` is the root, and then the commit.
  if(status EQUAL 0 AND lines MATCHES "^\n([0-9a-f]+)\n$")
    set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
  endif()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  sepal_read_commit(${SOURCE} commit)
  file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
// Made by cmake/SepalCommit.cmake.
#include <sepal/base/version.hpp>

std::string_view sepal::git_commit() {
  return "@commit@";
}
]])
  return()
endif()

set(commit_source ${CMAKE_BINARY_DIR}/commit.cpp)
set(commit_depends)
execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --git-path logs/HEAD
                OUTPUT_VARIABLE head_log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(head_log)
  get_filename_component(head_log ${head_log} ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
  if(EXISTS ${head_log})
    set(commit_depends ${head_log})
  endif()
endif()
add_custom_command(
  OUTPUT ${commit_source}
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${commit_source} -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${CMAKE_CURRENT_LIST_FILE} ${commit_depends}
  COMMENT "" VERBATIM)
add_library(sepal_commit STATIC ${commit_source})
target_link_libraries(sepal_commit PUBLIC sepal_base)
