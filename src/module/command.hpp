// How a command of the module is called. No exception leaves it: the server is written in C.
#pragma once

#include <sepal/base/syntax.hpp>

#include <cstddef>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "module/api.hpp"
#include "module/request.hpp"

namespace sepal::module {

using Handler = void(Request&);

// The memory for the words of a longer request is freed after it.
inline constexpr std::size_t kept_words_max = 4096;

// Tells the server which words of a request are keys, where one of them says how many follow it. A server
// from Redis 7.0 on asks for them only if that word is wrong.
void tell_keys(RedisModuleCtx* context, std::span<RedisModuleString* const> arguments, int key_count_at);

template <Handler& handler, int arity, int key_count_at>
int run(RedisModuleCtx* context, RedisModuleString** arguments, int count) {
  if constexpr (key_count_at != 0) {
    if (api.IsKeysPositionRequest(context) != 0) {
      tell_keys(context, {arguments, static_cast<std::size_t>(count)}, key_count_at);
      return status_ok;
    }
  }
  // A server before Redis 7.0 does not learn the arity, and lets every number of words through.
  if (arity > 0 ? count != arity : count < -arity) return api.WrongArity(context);
  // Kept between requests, so that a request allocates nothing for its words.
  static std::vector<std::string_view> words;
  try {
    const std::span<RedisModuleString*> given(arguments, static_cast<std::size_t>(count));
    read_words(given, words);
    Request request{.context = context, .arguments = given, .words = words, .reply = Reply(context)};
    handler(request);
  } catch (const std::exception& failure) {
    // No reply has begun: a handler allocates what may fail before its reply, and Reply throws nothing.
    api.Log(context, "warning", "sepal: a command has failed: %s", failure.what());
    api.ReplyWithError(context, "ERR the module has no memory for this command");
  }
  if (words.capacity() > kept_words_max) std::vector<std::string_view>().swap(words);
  return status_ok;
}

struct Command {
  const CommandFacts& facts;
  CommandFunction* function;
};

// At compile time: each request checks the arity, so it is a part of the function.
template <Handler& handler, int arity, int key_count_at = 0>
consteval Command command(const CommandFacts& facts) {
  return facts.arity == arity && facts.key_count_at == key_count_at
             ? Command{.facts = facts, .function = run<handler, arity, key_count_at>}
             : throw "the arity, or the word that counts the keys, is not that of the command";
}

}  // namespace sepal::module
