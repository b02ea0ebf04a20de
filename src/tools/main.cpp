// sepal: tools that need no running server.
#include <CLI/CLI.hpp>

int main(int argc, char** argv) {
  CLI::App tools("Tools for Sepal that need no running server");
  tools.set_version_flag("--version", std::string("sepal ") + SEPAL_VERSION);
  CLI11_PARSE(tools, argc, argv);
  return 0;
}
