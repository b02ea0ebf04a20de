// hiredis against a running sepald: the client library under most others. Usage: hiredis_client PORT
#include <hiredis/hiredis.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace {

struct Free {
  void operator()(redisContext* context) const { redisFree(context); }
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, Free>;

int failures = 0;

void expect(bool claim, const char* text) {
  if (claim) return;
  std::fprintf(stderr, "failed: %s\n", text);
  ++failures;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::unique_ptr<redisContext, Free> context(redisConnect("127.0.0.1", std::atoi(argv[1])));
  if (context == nullptr || context->err != 0) {
    std::fprintf(stderr, "cannot connect\n");
    return 1;
  }
  const auto ask = [&](const char* format, auto... words) {
    return Reply(static_cast<redisReply*>(redisCommand(context.get(), format, words...)));
  };

  Reply reply = ask("BF.RESERVE %s %s %s", "k", "0.01", "1000");
  expect(reply && reply->type == REDIS_REPLY_STATUS && std::string(reply->str) == "OK",
         "BF.RESERVE answers OK");
  reply = ask("BF.ADD k %b", "\0\r\n", std::size_t{3});
  expect(reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1, "a binary item is new");
  reply = ask("BF.MEXISTS k %b x", "\0\r\n", std::size_t{3});
  expect(reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
             reply->element[0]->integer == 1 && reply->element[1]->integer == 0,
         "BF.MEXISTS answers in order");
  reply = ask("NOSUCH");
  expect(reply && reply->type == REDIS_REPLY_ERROR, "an unknown command is an error reply");

  constexpr int pipelined = 10000;
  for (int i = 0; i < pipelined; ++i) redisAppendCommand(context.get(), "BF.ADD k2 %d", i);
  for (int i = 0; i < pipelined; ++i) {
    void* raw = nullptr;
    expect(redisGetReply(context.get(), &raw) == REDIS_OK, "every pipelined request is answered");
    Reply(static_cast<redisReply*>(raw));
  }
  std::printf("%d passed, %d failed\n", 4 + pipelined - failures, failures);
  return failures == 0 ? 0 : 1;
}
