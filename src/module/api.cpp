#include "module/api.hpp"

namespace sepal::module {
namespace {

using GetApi = int(const char* name, void* function);

// Asks the server for its functions, and notes the names of those that it lacks.
class Loader {
 public:
  explicit Loader(GetApi* get_api) : get_api_(get_api) {}

  template <class Function>
  void optional(Function& function, const char* name) {
    // For an unknown name the server leaves the pointer as it was.
    if (get_api_((std::string("RedisModule_") + name).c_str(), static_cast<void*>(&function)) != status_ok)
      function = nullptr;
  }

  // Goes on after a missing one, so that one line of the log names all that the server lacks.
  template <class Function>
  void needed(Function& function, const char* name) {
    optional(function, name);
    if (function == nullptr) missing_ += (missing_.empty() ? "" : " ") + std::string(name);
  }

  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  GetApi* get_api_;
  std::string missing_;
};

// Keys, replies and the commands themselves.
void load_requests(Loader& loader) {
  loader.needed(api.SetModuleAttribs, "SetModuleAttribs");
  loader.needed(api.IsModuleNameBusy, "IsModuleNameBusy");
  loader.needed(api.CreateCommand, "CreateCommand");
  loader.needed(api.SetModuleOptions, "SetModuleOptions");
  loader.needed(api.GetContextFlags, "GetContextFlags");
  loader.needed(api.Log, "Log");
  loader.needed(api.StringPtrLen, "StringPtrLen");
  loader.needed(api.CreateString, "CreateString");
  loader.needed(api.FreeString, "FreeString");
  loader.needed(api.WrongArity, "WrongArity");
  loader.needed(api.IsKeysPositionRequest, "IsKeysPositionRequest");
  loader.needed(api.KeyAtPos, "KeyAtPos");
  loader.needed(api.ReplyWithLongLong, "ReplyWithLongLong");
  loader.needed(api.ReplyWithDouble, "ReplyWithDouble");
  loader.needed(api.ReplyWithError, "ReplyWithError");
  loader.needed(api.ReplyWithSimpleString, "ReplyWithSimpleString");
  loader.needed(api.ReplyWithStringBuffer, "ReplyWithStringBuffer");
  loader.needed(api.ReplyWithArray, "ReplyWithArray");
  loader.needed(api.ReplyWithNull, "ReplyWithNull");
  loader.needed(api.OpenKey, "OpenKey");
  loader.needed(api.CloseKey, "CloseKey");
  loader.needed(api.KeyType, "KeyType");
  loader.needed(api.ModuleTypeGetType, "ModuleTypeGetType");
  loader.needed(api.ModuleTypeGetValue, "ModuleTypeGetValue");
  loader.needed(api.ModuleTypeSetValue, "ModuleTypeSetValue");
  loader.needed(api.SetAbsExpire, "SetAbsExpire");
  loader.needed(api.SignalModifiedKey, "SignalModifiedKey");
  loader.needed(api.Replicate, "Replicate");
  loader.needed(api.ReplicateVerbatim, "ReplicateVerbatim");
  loader.needed(api.Milliseconds, "Milliseconds");
}

// The data type: its files, its memory and what it asks of the server.
void load_data_type(Loader& loader) {
  loader.needed(api.CreateDataType, "CreateDataType");
  loader.needed(api.LoadUnsigned, "LoadUnsigned");
  loader.needed(api.LoadDouble, "LoadDouble");
  loader.needed(api.LoadStringBuffer, "LoadStringBuffer");
  loader.needed(api.SaveStringBuffer, "SaveStringBuffer");
  loader.needed(api.EmitAOF, "EmitAOF");
  loader.needed(api.IsIOError, "IsIOError");
  loader.needed(api.GetContextFromIO, "GetContextFromIO");
  loader.needed(api.LogIOError, "LogIOError");
  loader.needed(api.DigestAddStringBuffer, "DigestAddStringBuffer");
  loader.needed(api.DigestEndSequence, "DigestEndSequence");
  loader.needed(api.Calloc, "Calloc");
  loader.needed(api.Free, "Free");
  loader.needed(api.GetServerInfo, "GetServerInfo");
  loader.needed(api.FreeServerInfo, "FreeServerInfo");
  loader.needed(api.ServerInfoGetFieldUnsigned, "ServerInfoGetFieldUnsigned");
  loader.needed(api.ServerInfoGetFieldC, "ServerInfoGetFieldC");
}

// Each caller of these tests the pointer first.
void load_optional(Loader& loader) {
  loader.optional(api.ReplyWithBool, "ReplyWithBool");
  loader.optional(api.ReplyWithMap, "ReplyWithMap");
  loader.optional(api.GetCommand, "GetCommand");
  loader.optional(api.SetCommandInfo, "SetCommandInfo");
  loader.optional(api.RegisterStringConfig, "RegisterStringConfig");
  loader.optional(api.LoadConfigs, "LoadConfigs");
  loader.optional(api.SetCommandACLCategories, "SetCommandACLCategories");
  loader.optional(api.AddACLCategory, "AddACLCategory");
  loader.optional(api.TryAlloc, "TryAlloc");
  loader.optional(api.TryCalloc, "TryCalloc");
}

}  // namespace

Api api{};

std::string load_api(RedisModuleCtx* context) {
  // The module is not linked with the server. The first member of the context is the function that gives the
  // others, in every version of the server.
  Loader loader(*reinterpret_cast<GetApi**>(context));
  load_requests(loader);
  load_data_type(loader);
  load_optional(loader);
  return loader.missing();
}

}  // namespace sepal::module
