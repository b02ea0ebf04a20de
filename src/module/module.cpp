// The one function that the server calls by its name: it loads the module.
#include <exception>
#include <string>
#include <vector>

#include "api.hpp"
#include "commands.hpp"
#include "filter_type.hpp"
#include "room.hpp"
#include "settings.hpp"

namespace sepal::module {
namespace {

// RedisBloom's. Tools look for it in MODULE LIST, and a server has room for one of the two.
constexpr const char* module_name = "bf";

int refuse(RedisModuleCtx* context, const std::string& why) {
  // Without this function the server only says that the module was not loaded.
  if (api.Log != nullptr) api.Log(context, "warning", "sepal: the module is not loaded: %s", why.c_str());
  return status_error;
}

int load(RedisModuleCtx* context, RedisModuleString** arguments, int count) {
  if (const std::string missing = load_api(context); !missing.empty())
    return refuse(context, "the server lacks these functions, which Redis 6.2.2 has: " + missing);
  if (api.IsModuleNameBusy(module_name) != 0)
    return refuse(context, "the server has another module of this name, bf, which is RedisBloom's as well");
  api.SetModuleAttribs(context, module_name, 1, module_api_version);
  std::vector<std::string_view> words;
  read_words({arguments, static_cast<std::size_t>(count)}, words);
  static Settings settings;
  if (const std::string wrong = read_settings(words, settings); !wrong.empty()) return refuse(context, wrong);
  if (!offer_settings(context, settings))
    return refuse(context, "a parameter of the configuration is refused");
  use_memory_of_server();
  if (!create_filter_type(context)) return refuse(context, "the server does not take the type of filters");
  if (!create_commands(context, settings)) return refuse(context, "the server does not take a BF command");
  api.SetModuleOptions(context, handles_io_errors | signals_modified_keys_itself);
  api.Log(context, "notice", "sepal: version " SEPAL_VERSION ", with RedisBloom's commands and files");
  return status_ok;
}

}  // namespace
}  // namespace sepal::module

// The name is the server's. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" __attribute__((visibility("default"))) int RedisModule_OnLoad(RedisModuleCtx* context,
                                                                         RedisModuleString** arguments,
                                                                         int count) {
  try {
    return sepal::module::load(context, arguments, count);
  } catch (const std::exception& failure) {
    return sepal::module::refuse(context, failure.what());
  }
}
