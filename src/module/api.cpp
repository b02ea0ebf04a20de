#include "api.hpp"

namespace sepal::module {
namespace {

using GetApi = int(const char* name, void* function);

}  // namespace

Api api{};

std::string load_api(RedisModuleCtx* context) {
  // The module is not linked with the server. The first member of the context is the function that gives the
  // others, in every version of the server.
  GetApi* const get_api = *reinterpret_cast<GetApi**>(context);
  std::string missing;
  // For an unknown name the server leaves the pointer as it was.
  const auto optional = [&](auto& function, const char* name) {
    if (get_api((std::string("RedisModule_") + name).c_str(), static_cast<void*>(&function)) != status_ok)
      function = nullptr;
    return function != nullptr;
  };
  // Goes on after a missing one, so that one line of the log names all that the server lacks.
  const auto needed = [&](auto& function, const char* name) {
    if (!optional(function, name)) missing += (missing.empty() ? "" : " ") + std::string(name);
  };
  needed(api.SetModuleAttribs, "SetModuleAttribs");
  needed(api.IsModuleNameBusy, "IsModuleNameBusy");
  needed(api.CreateCommand, "CreateCommand");
  needed(api.SetModuleOptions, "SetModuleOptions");
  needed(api.GetContextFlags, "GetContextFlags");
  needed(api.Log, "Log");
  needed(api.StringPtrLen, "StringPtrLen");
  needed(api.CreateString, "CreateString");
  needed(api.FreeString, "FreeString");
  needed(api.WrongArity, "WrongArity");
  needed(api.ReplyWithLongLong, "ReplyWithLongLong");
  needed(api.ReplyWithDouble, "ReplyWithDouble");
  needed(api.ReplyWithError, "ReplyWithError");
  needed(api.ReplyWithSimpleString, "ReplyWithSimpleString");
  needed(api.ReplyWithStringBuffer, "ReplyWithStringBuffer");
  needed(api.ReplyWithArray, "ReplyWithArray");
  needed(api.ReplyWithNull, "ReplyWithNull");
  needed(api.OpenKey, "OpenKey");
  needed(api.CloseKey, "CloseKey");
  needed(api.KeyType, "KeyType");
  needed(api.ModuleTypeGetType, "ModuleTypeGetType");
  needed(api.ModuleTypeGetValue, "ModuleTypeGetValue");
  needed(api.ModuleTypeSetValue, "ModuleTypeSetValue");
  needed(api.SetAbsExpire, "SetAbsExpire");
  needed(api.SignalModifiedKey, "SignalModifiedKey");
  needed(api.Replicate, "Replicate");
  needed(api.ReplicateVerbatim, "ReplicateVerbatim");
  needed(api.Milliseconds, "Milliseconds");
  needed(api.CreateDataType, "CreateDataType");
  needed(api.LoadUnsigned, "LoadUnsigned");
  needed(api.LoadDouble, "LoadDouble");
  needed(api.LoadStringBuffer, "LoadStringBuffer");
  needed(api.SaveStringBuffer, "SaveStringBuffer");
  needed(api.EmitAOF, "EmitAOF");
  needed(api.IsIOError, "IsIOError");
  needed(api.GetContextFromIO, "GetContextFromIO");
  needed(api.LogIOError, "LogIOError");
  needed(api.DigestAddStringBuffer, "DigestAddStringBuffer");
  needed(api.DigestEndSequence, "DigestEndSequence");
  needed(api.Calloc, "Calloc");
  needed(api.Free, "Free");
  needed(api.GetServerInfo, "GetServerInfo");
  needed(api.FreeServerInfo, "FreeServerInfo");
  needed(api.ServerInfoGetFieldUnsigned, "ServerInfoGetFieldUnsigned");
  needed(api.ServerInfoGetFieldC, "ServerInfoGetFieldC");
  // Each caller of these tests the pointer first.
  optional(api.ReplyWithBool, "ReplyWithBool");
  optional(api.ReplyWithMap, "ReplyWithMap");
  optional(api.GetCommand, "GetCommand");
  optional(api.SetCommandInfo, "SetCommandInfo");
  optional(api.RegisterStringConfig, "RegisterStringConfig");
  optional(api.LoadConfigs, "LoadConfigs");
  optional(api.SetCommandACLCategories, "SetCommandACLCategories");
  optional(api.AddACLCategory, "AddACLCategory");
  optional(api.TryAlloc, "TryAlloc");
  optional(api.TryCalloc, "TryCalloc");
  return missing;
}

}  // namespace sepal::module
