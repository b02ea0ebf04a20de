// The functions that Redis and Valkey give to a module: those that this module uses, and no others.
//
// The server has no symbols to link with. It hands each function out by its name. Their types are those of
// the documentation of the module API. A function that an older server lacks is null.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

// The server's own types, whose inside only the server knows.
struct RedisModuleCommand;
struct RedisModuleCtx;
struct RedisModuleDigest;
struct RedisModuleIO;
struct RedisModuleKey;
struct RedisModuleServerInfoData;
struct RedisModuleString;
struct RedisModuleType;

namespace sepal::module {

inline constexpr int status_ok = 0;
inline constexpr int status_error = 1;
inline constexpr int module_api_version = 1;

// OpenKey() takes these modes.
inline constexpr int open_to_read = 1;
inline constexpr int open_to_write = 2;
// KeyType() returns it for a free key.
inline constexpr int key_is_empty = 0;
// GetContextFlags() returns these bits, among others.
inline constexpr int context_is_replica = 1 << 3;
inline constexpr int context_is_loading = 1 << 13;
inline constexpr int context_is_resp3 = 1 << 22;
// SetModuleOptions() takes these bits.
inline constexpr int handles_io_errors = 1 << 0;
inline constexpr int signals_modified_keys_itself = 1 << 1;

using CommandFunction = int(RedisModuleCtx*, RedisModuleString**, int);

// Functions of a parameter of CONFIG. `ours` is what the module gave with its name. A reader keeps the string
// that it returns. A writer that refuses a value returns status_error, and a string that the server frees.
using GetText = RedisModuleString*(const char* name, void* ours);
using SetText = int(const char* name, RedisModuleString* value, void* ours, RedisModuleString** refused);
using ApplyConfig = int(RedisModuleCtx*, void* ours, RedisModuleString** refused);

// Version 3 of the server's table of a data type's functions.
struct TypeMethods {
  std::uint64_t version = 3;
  void* (*rdb_load)(RedisModuleIO*, int encoding_version) = nullptr;
  void (*rdb_save)(RedisModuleIO*, void* value) = nullptr;
  void (*aof_rewrite)(RedisModuleIO*, RedisModuleString* key, void* value) = nullptr;
  std::size_t (*mem_usage)(const void* value) = nullptr;
  void (*digest)(RedisModuleDigest*, void* value) = nullptr;
  void (*free)(void* value) = nullptr;
  int (*aux_load)(RedisModuleIO*, int encoding_version, int when) = nullptr;
  void (*aux_save)(RedisModuleIO*, int when) = nullptr;
  int aux_save_triggers = 0;
  std::size_t (*free_effort)(RedisModuleString* key, const void* value) = nullptr;
  void (*unlink)(RedisModuleString* key, const void* value) = nullptr;
  void* (*copy)(RedisModuleString* from, RedisModuleString* to, const void* value) = nullptr;
  int (*defrag)(void* context, RedisModuleString* key, void** value) = nullptr;
};

// Which words of a command are keys, and what it does to them (version 1 of the server's table).
struct KeySpec {
  static constexpr std::uint64_t reads = 1 << 0;    // RO
  static constexpr std::uint64_t changes = 1 << 1;  // RW
  static constexpr std::uint64_t gives = 1 << 4;    // ACCESS
  static constexpr std::uint64_t inserts = 1 << 6;  // INSERT
  static constexpr int by_index = 2;                // begin_search
  static constexpr int by_range = 2;                // find_keys
  static constexpr int by_number = 3;

  const char* notes = nullptr;
  std::uint64_t flags = 0;
  int begin_search = 0;  // 0 ends an array of these
  struct {
    alignas(8) int position;
    const char* unused;
  } begin{};
  int find_keys = 0;
  struct Range {
    int last_key;
    int key_step;
    int limit;
  };
  // Positions count from the word that `begin` names.
  struct Number {
    int number_at;  // the word with the number of keys
    int first_key;
    int key_step;
  };
  union {
    Range range{};
    Number number;
  };
};

struct CommandInfoVersion {
  int version;
  std::size_t history_entry_bytes;
  std::size_t key_spec_bytes;
  std::size_t argument_bytes;
};

enum class ArgumentType : int { string, integer, real, key, pattern, unix_time, pure_token, one_of, block };

// An argument of a command, for COMMAND DOCS (version 1 of the server's table).
struct ArgumentInfo {
  static constexpr int optional = 1 << 0;
  static constexpr int repeated = 1 << 1;

  const char* name = nullptr;  // null ends an array of these
  ArgumentType type = ArgumentType::string;
  int key_spec_index = -1;  // of a key: its place among the KeySpecs
  const char* token = nullptr;
  const char* summary = nullptr;
  const char* since = nullptr;
  int flags = 0;
  const char* deprecated_since = nullptr;
  const ArgumentInfo* inner = nullptr;  // of a block, or of one_of
  const char* display_text = nullptr;
};

struct CommandInfo {
  const CommandInfoVersion* version;
  const char* summary;
  const char* complexity;
  const char* since;
  const void* history;
  const char* tips;
  int arity;
  const KeySpec* key_specs;
  const ArgumentInfo* arguments;
};

// The members have the server's names. NOLINTBEGIN(readability-identifier-naming)
struct Api {
  // --- Redis 6.2.2 has all of these -----------------------------------------------------------------------

  // The module and its commands.
  void (*SetModuleAttribs)(RedisModuleCtx*, const char* name, int version, int api_version);
  int (*IsModuleNameBusy)(const char* name);
  int (*CreateCommand)(RedisModuleCtx*, const char* name, CommandFunction*, const char* flags, int first_key,
                       int last_key, int key_step);
  void (*SetModuleOptions)(RedisModuleCtx*, int options);
  int (*GetContextFlags)(RedisModuleCtx*);
  void (*Log)(RedisModuleCtx*, const char* level, const char* format, ...);

  // Words and replies.
  const char* (*StringPtrLen)(const RedisModuleString*, std::size_t* length);
  RedisModuleString* (*CreateString)(RedisModuleCtx*, const char*, std::size_t);  // the context may be null
  void (*FreeString)(RedisModuleCtx*, RedisModuleString*);                        // the context may be null
  int (*WrongArity)(RedisModuleCtx*);
  int (*IsKeysPositionRequest)(RedisModuleCtx*);
  void (*KeyAtPos)(RedisModuleCtx*, int position);
  int (*ReplyWithLongLong)(RedisModuleCtx*, long long);
  int (*ReplyWithDouble)(RedisModuleCtx*, double);
  int (*ReplyWithError)(RedisModuleCtx*, const char*);
  int (*ReplyWithSimpleString)(RedisModuleCtx*, const char*);
  int (*ReplyWithStringBuffer)(RedisModuleCtx*, const char*, std::size_t);
  int (*ReplyWithArray)(RedisModuleCtx*, long);
  int (*ReplyWithNull)(RedisModuleCtx*);

  // Keys.
  RedisModuleKey* (*OpenKey)(RedisModuleCtx*, RedisModuleString*, int mode);
  void (*CloseKey)(RedisModuleKey*);
  int (*KeyType)(RedisModuleKey*);
  RedisModuleType* (*ModuleTypeGetType)(RedisModuleKey*);
  void* (*ModuleTypeGetValue)(RedisModuleKey*);
  int (*ModuleTypeSetValue)(RedisModuleKey*, RedisModuleType*, void* value);
  int (*SetAbsExpire)(RedisModuleKey*, long long milliseconds);
  int (*SignalModifiedKey)(RedisModuleCtx*, RedisModuleString*);

  // Replicas and the AOF.
  int (*Replicate)(RedisModuleCtx*, const char* command, const char* format, ...);
  int (*ReplicateVerbatim)(RedisModuleCtx*);
  long long (*Milliseconds)();

  // The data type, and its files.
  RedisModuleType* (*CreateDataType)(RedisModuleCtx*, const char* name, int encoding_version, TypeMethods*);
  std::uint64_t (*LoadUnsigned)(RedisModuleIO*);
  double (*LoadDouble)(RedisModuleIO*);
  char* (*LoadStringBuffer)(RedisModuleIO*, std::size_t* length);
  void (*SaveStringBuffer)(RedisModuleIO*, const char*, std::size_t);
  void (*EmitAOF)(RedisModuleIO*, const char* command, const char* format, ...);
  int (*IsIOError)(RedisModuleIO*);
  RedisModuleCtx* (*GetContextFromIO)(RedisModuleIO*);
  void (*LogIOError)(RedisModuleIO*, const char* level, const char* format, ...);
  void (*DigestAddStringBuffer)(RedisModuleDigest*, const char*, std::size_t);
  void (*DigestEndSequence)(RedisModuleDigest*);

  // Memory.
  void* (*Calloc)(std::size_t count, std::size_t size);
  void (*Free)(void*);
  RedisModuleServerInfoData* (*GetServerInfo)(RedisModuleCtx*, const char* section);
  void (*FreeServerInfo)(RedisModuleCtx*, RedisModuleServerInfoData*);
  unsigned long long (*ServerInfoGetFieldUnsigned)(RedisModuleServerInfoData*, const char* field, int* error);
  const char* (*ServerInfoGetFieldC)(RedisModuleServerInfoData*, const char* field);

  // --- later servers ------------------------------------------------------------------------------------

  int (*ReplyWithBool)(RedisModuleCtx*, int);                            // Redis 7.0
  int (*ReplyWithMap)(RedisModuleCtx*, long);                            // Redis 7.0
  void* (*TryAlloc)(std::size_t);                                        // Redis 7.0
  RedisModuleCommand* (*GetCommand)(RedisModuleCtx*, const char* name);  // Redis 7.0
  int (*SetCommandInfo)(RedisModuleCommand*, const CommandInfo*);        // Redis 7.0
  int (*RegisterStringConfig)(RedisModuleCtx*, const char* name, const char* initial, unsigned flags,
                              GetText*, SetText*, ApplyConfig*, void* ours);  // Redis 7.0
  int (*LoadConfigs)(RedisModuleCtx*);                                        // Redis 7.0
  int (*SetCommandACLCategories)(RedisModuleCommand*, const char* names);     // Redis 7.2
  int (*AddACLCategory)(RedisModuleCtx*, const char* name);                   // Redis 7.4
  void* (*TryCalloc)(std::size_t, std::size_t);                               // Redis 7.4
};
// NOLINTEND(readability-identifier-naming)

// Set by load_api(), before any other function of this module is called.
extern Api api;

// Takes the functions from the server that loads the module. Returns the names of those that the module needs
// and the server lacks, blank separated; empty if there are none.
[[nodiscard]] std::string load_api(RedisModuleCtx* context);

}  // namespace sepal::module
