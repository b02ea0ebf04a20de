// The one function that the server calls by its name: it loads the module.
#include <sepal/bloom/kernel/choice.hpp>

#include <exception>
#include <string>
#include <vector>

#include "module/api.hpp"
#include "module/commands.hpp"
#include "module/room.hpp"
#include "module/settings.hpp"
#include "module/value_types.hpp"

namespace sepal::module {
namespace {

// RedisBloom's name, because tools look for it in MODULE LIST. So a server loads one of the two modules.
constexpr const char* module_name = "bf";

int refuse(RedisModuleCtx* context, const std::string& why) {
  // The server may lack this function too. Its own log line then says only that the module was not loaded.
  if (api.Log != nullptr) api.Log(context, "warning", "sepal: the module is not loaded: %s", why.c_str());
  return status_error;
}

int load(RedisModuleCtx* context, RedisModuleString** arguments, int count) {
  // First: every other step calls a function of the server.
  if (const std::string missing = load_api(context); !missing.empty())
    return refuse(context, "the server lacks these functions, which Redis 6.2.2 has: " + missing);
  if (api.IsModuleNameBusy(module_name) != 0)
    return refuse(context, "the server has another module of this name, bf, which is RedisBloom's as well");
  if (const auto checked = bloom::check_kernel(); !checked) return refuse(context, checked.error().detail);
  api.SetModuleAttribs(context, module_name, 1, module_api_version);
  std::vector<std::string_view> words;
  read_words({arguments, static_cast<std::size_t>(count)}, words);
  // The commands and CONFIG keep its address as long as the server runs.
  static Settings settings;
  if (const std::string wrong = read_settings(words, settings); !wrong.empty()) return refuse(context, wrong);
  // After the arguments, because a line of the server's configuration file is stronger than an argument.
  if (!offer_settings(context, settings))
    return refuse(context, "a parameter of the configuration is refused");
  // Before any filter is made: a filter must be freed by the functions that allocated it.
  use_memory_of_server();
  if (!create_value_types(context)) return refuse(context, "the server does not take a type of values");
  if (!create_commands(context, settings)) return refuse(context, "the server does not take a command");
  // Without the first option, a value that is cut short ends the server while it loads. Without the second
  // one, an add of known items ends a transaction of a client that watches the key.
  api.SetModuleOptions(context, handles_io_errors | signals_modified_keys_itself);
  api.Log(context, "notice",
          "sepal: version " SEPAL_VERSION ", kernel %s, with RedisBloom's commands and files",
          std::string(bloom::kernel_name()).c_str());
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
