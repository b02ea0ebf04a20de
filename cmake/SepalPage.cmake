# Makes the files of the status page a part of sepald. As a script (cmake -DOUTPUT=... -DFOLDER=... -P) it writes the
# source that has their bytes; included, it adds that source to sepald.
set(SEPAL_PAGE_FILES index.html page.css page.js advice.js ask.js detail.js draw.js figures.js key.js planner.js rows.js server.js trouble.js icon.svg)

if(CMAKE_SCRIPT_MODE_FILE)
  set(type_html "text/html; charset=utf-8")
  set(type_css "text/css; charset=utf-8")
  set(type_js "text/javascript; charset=utf-8")
  set(type_svg "image/svg+xml")
  set(arrays "")
  set(rows "")
  foreach(file ${SEPAL_PAGE_FILES})
    file(READ ${FOLDER}/${file} bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(MAKE_C_IDENTIFIER ${file} name)
    string(REGEX REPLACE "^.*\\." "" extension ${file})
    set(path "/${file}")
    if(file STREQUAL "index.html")
      set(path "/")
    endif()
    string(APPEND arrays "const unsigned char ${name}[] = {${bytes}};\n")
    string(APPEND rows "    {.path = \"${path}\", .content_type = \"${type_${extension}}\", .bytes = text(${name})},\n")
  endforeach()
  file(WRITE ${OUTPUT} "// Written by cmake/SepalPage.cmake.
#include \"app/pages/page_files.hpp\"

namespace sepal::app {
namespace {
${arrays}
template <std::size_t size>
std::string_view text(const unsigned char (&bytes)[size]) {
  return {reinterpret_cast<const char*>(bytes), size};
}
}  // namespace

std::span<const PageFile> page_files() {
  static const PageFile files[] = {
${rows}  };
  return files;
}

}  // namespace sepal::app
")
  return()
endif()

set(page_folder ${PROJECT_SOURCE_DIR}/src/app/page)
set(page_source ${PROJECT_BINARY_DIR}/generated/page_files.cpp)
list(TRANSFORM SEPAL_PAGE_FILES PREPEND ${page_folder}/ OUTPUT_VARIABLE page_inputs)
add_custom_command(
  OUTPUT ${page_source}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${page_source} -DFOLDER=${page_folder} -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${page_inputs} ${CMAKE_CURRENT_LIST_FILE}
  COMMENT "Embedding the status page"
  VERBATIM)
target_sources(sepald_objects PRIVATE ${page_source})
set_source_files_properties(${page_source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
