// Laws that hold for every client while other clients change the structure: all workers at once create, grow,
// delete, flush and rename filters. Each law has its own keys, and every worker goes from law to law, one
// pipeline at a time.

#include "property/session/stress.hpp"
#include "support/catch.hpp"

namespace sepal::session::structure_property {
namespace {

using namespace std::string_view_literals;
using namespace test;

// Small enough that there are no false positives.
constexpr std::string_view exact_rate = "1e-12";
constexpr std::size_t chunk_items_max = 40;
constexpr std::size_t workers_max = 64;

class Law {
 public:
  Law() = default;
  virtual ~Law() = default;
  Law(const Law&) = delete;
  Law& operator=(const Law&) = delete;

  // Called before any worker runs, and after all have ended.
  virtual void begin(StressWorker&) {}
  virtual void end(StressWorker&) {}
  // Runs one pipeline. Any number of workers may call it at once.
  virtual void take_turn(StressWorker& worker) = 0;
};

std::string first_line(const std::string& reply) {
  return reply.substr(0, reply.find('\r'));
}

std::string ask(StressWorker& worker, std::initializer_list<std::string_view> words) {
  return first_line(worker.ask(Pipeline().ask(words).bytes()));
}

bool is_boolean(std::string_view line) {
  return line == ":0" || line == ":1";
}

// A filter that is renamed back and forth always has exactly one of its two names, and loses no add.
class PassedAround final : public Law {
 public:
  explicit PassedAround(Complaint& complaint)
      : complaint_(complaint), items_(test::stress_items(item_total)), ledger_(item_total) {}

  void begin(StressWorker& worker) override {
    if (ask(worker, {"BF.RESERVE", names[0], exact_rate, "10"}) != "+OK")
      complaint_.make("passed: no filter");
  }

  void take_turn(StressWorker& worker) override {
    Pipeline pipeline;
    std::vector<Question> questions;
    for (std::size_t count = 1 + worker.below(12); count > 0; --count) {
      const std::size_t name = worker.below(names.size());
      if (worker.one_in(6)) {
        pipeline.ask({"RENAME", names[name], names[1 - name]});
        questions.push_back({.kind = Kind::rename});
      } else if (worker.one_in(4)) {
        for (std::size_t times = 0; times < exists_times; ++times) {
          pipeline.ask({"EXISTS", names[0], names[1]});
          questions.push_back({.kind = Kind::exists});
        }
      } else {
        questions.push_back(
            {.kind = Kind::add, .first = next_items(worker), .count = 1 + worker.below(chunk_items_max)});
        const Question& added = questions.back();
        pipeline.ask({"BF.INSERT", names[name], "NOCREATE", "ITEMS"},
                     std::span(items_).subspan(added.first, added.count));
      }
    }
    check(questions, worker.ask(pipeline.bytes()));
  }

  void end(StressWorker& worker) override {
    const std::string_view name = ask(worker, {"EXISTS", names[0]}) == ":1" ? names[0] : names[1];
    std::string fault = ledger_.fault(ask(worker, {"BF.CARD", name}), true);
    const std::string replies = worker.ask(Pipeline().ask({"BF.MEXISTS", name}, items_).bytes());
    ReplyLines lines(replies);
    const std::vector<std::string_view>& found = lines.lines();
    for (std::size_t item = 0; item < item_total; ++item)
      if (ledger_.must_be_found(item) && found[item] != ":1") fault = items_[item] + " is denied";
    if (!fault.empty()) complaint_.make("passed: " + fault);
  }

 private:
  enum class Kind : std::uint8_t { rename, exists, add };
  struct Question {
    Kind kind;
    std::size_t first = 0;
    std::size_t count = 0;
  };

  // The workers' items are close together and move on, so the workers meet at new items and the filter grows.
  std::size_t next_items(StressWorker& worker) {
    const std::size_t at = next_.fetch_add(worker.below(12));
    return std::min(at + worker.below(chunk_items_max), item_total - chunk_items_max);
  }

  void check(const std::vector<Question>& questions, const std::string& replies) {
    ReplyLines lines(replies);
    for (const Question& question : questions) {
      const std::vector<std::string_view>& answers = lines.lines();
      const bool right = question.kind == Kind::add      ? take_answers(question, answers)
                         : question.kind == Kind::exists ? answers.front() == ":1"
                                                         : is_renamed_or_gone(answers.front());
      if (!right) complaint_.make("passed: an answer is " + std::string(answers.front()));
    }
  }

  static bool is_renamed_or_gone(std::string_view answer) {
    return answer == "+OK" || answer == "-ERR no such key";
  }

  bool take_answers(const Question& question, const std::vector<std::string_view>& answers) {
    if (answers.front() == "-ERR not found") return true;  // It has the other name now.
    if (answers.size() != question.count) return false;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (!is_boolean(answers[i])) return false;
      ledger_.add_answered(question.first + i, answers[i] == ":1");
    }
    return true;
  }

  static constexpr std::size_t exists_times = 30;  // A rename is short: ask often enough to meet one.
  static constexpr std::size_t item_total = 200'000;
  static constexpr std::array names{"here"sv, "there"sv};
  Complaint& complaint_;
  std::vector<std::string> items_;
  Ledger ledger_;
  std::atomic<std::size_t> next_{0};
};

// A key whose filter is replaced by RENAME never denies the items that all these filters hold.
class Published final : public Law {
 public:
  explicit Published(Complaint& complaint) : complaint_(complaint), items_(test::stress_items(item_total)) {}

  void begin(StressWorker& worker) override { publish(worker); }

  void take_turn(StressWorker& worker) override {
    if (worker.one_in(6)) return publish(worker);
    const std::span<const std::string> known = std::span(items_).first(known_items);
    for (std::size_t count = 1 + worker.below(4); count > 0; --count) {
      const auto some = known.subspan(worker.below(known_items));
      ask(worker, {"BF.MEXISTS", "published"}, some, is_one);
      for (const std::string& item : some) ask(worker, {"BF.EXISTS", "published"}, {&item, 1}, is_one);
      ask(worker, {"BF.MADD", "published"}, some, is_zero);
      // Other items, so that the filter grows during the look-ups.
      const std::size_t first = known_items + worker.below(item_total - known_items - chunk_items_max);
      ask(worker, {"BF.MADD", "published"}, std::span(items_).subspan(first, chunk_items_max), is_boolean);
    }
    send(worker);
  }

 private:
  using Test = bool (*)(std::string_view line);
  static bool is_one(std::string_view line) { return line == ":1"; }
  static bool is_zero(std::string_view line) { return line == ":0"; }
  static bool is_ok(std::string_view line) { return line == "+OK"; }

  struct Turn {
    Pipeline pipeline;
    std::vector<std::pair<Test, std::size_t>> answers;  // the test for each answer, and the number of lines
  };

  void publish(StressWorker& worker) {
    const std::string draft = "draft:" + std::to_string(worker.index);
    const std::string_view capacity = std::array{"3"sv, "30"sv, "100000"sv}[worker.below(3)];
    ask(worker, {"BF.RESERVE", draft, "0.01", capacity}, {}, is_ok);
    ask(worker, {"BF.MADD", draft}, std::span(items_).first(known_items), is_boolean);
    ask(worker, {"RENAME", draft, "published"}, {}, is_ok);
    send(worker);
  }

  void ask(StressWorker& worker, std::initializer_list<std::string_view> words,
           std::span<const std::string> items, Test test) {
    Turn& turn = turns_[worker.index];
    turn.pipeline.ask(words, items);
    turn.answers.emplace_back(test, std::max<std::size_t>(items.size(), 1));
  }

  void send(StressWorker& worker) {
    Turn& turn = turns_[worker.index];
    const std::string replies = worker.ask(turn.pipeline.bytes());
    ReplyLines lines(replies);
    for (const auto& [test, count] : turn.answers) {
      const std::vector<std::string_view>& answers = lines.lines();
      if (answers.size() != count || !std::ranges::all_of(answers, test))
        complaint_.make("published: " + replies);
    }
    turn = {};
  }

  static constexpr std::size_t known_items = 40;
  static constexpr std::size_t item_total = 2000;
  Complaint& complaint_;
  std::vector<std::string> items_;
  std::array<Turn, workers_max> turns_;
};

// A worker that uses keys of its own gets the same answers as if it were alone.
class OwnKeys final : public Law {
 public:
  explicit OwnKeys(Complaint& complaint) : complaint_(complaint), items_(test::stress_items(item_total)) {}

  void take_turn(StressWorker& worker) override {
    Model& model = models_[worker.index];
    Pipeline pipeline;
    std::string expected;
    for (std::size_t count = 1 + worker.below(60); count > 0; --count) {
      const std::size_t key = worker.below(2);
      if (worker.one_in(10)) {
        expected += change_structure(worker, pipeline, model, key);
      } else {
        expected += ask_about_items(worker, pipeline, model[key], name_of(worker, key));
      }
    }
    if (const std::string replies = worker.ask(pipeline.bytes()); replies != expected)
      complaint_.make("own keys: answered " + replies + " instead of " + expected);
  }

 private:
  using Filter = std::optional<std::set<std::size_t>>;
  using Model = std::array<Filter, 2>;

  static std::string name_of(const StressWorker& worker, std::size_t key) {
    return "own:" + std::to_string(worker.index) + ":" + std::to_string(key);
  }

  static std::string change_structure(StressWorker& worker, Pipeline& pipeline, Model& model,
                                      std::size_t key) {
    if (worker.one_in(2)) {
      pipeline.ask({"DEL", name_of(worker, key)});
      return std::exchange(model[key], std::nullopt) ? ":1\r\n" : ":0\r\n";
    }
    pipeline.ask({"RENAME", name_of(worker, key), name_of(worker, 1 - key)});
    if (!model[key]) return "-ERR no such key\r\n";
    model[1 - key] = std::exchange(model[key], std::nullopt);
    return "+OK\r\n";
  }

  std::string ask_about_items(StressWorker& worker, Pipeline& pipeline, Filter& filter,
                              const std::string& name) {
    const std::size_t count = 1 + worker.below(chunk_items_max);
    const std::size_t first = worker.below(item_total - count);
    const auto items = std::span(items_).subspan(first, count);
    std::string expected = "*" + std::to_string(count) + "\r\n";
    if (worker.one_in(3)) {
      pipeline.ask({"BF.MEXISTS", name}, items);
      for (std::size_t item = first; item < first + count; ++item)
        expected += filter && filter->contains(item) ? ":1\r\n" : ":0\r\n";
      return expected;
    }
    if (filter) {
      pipeline.ask({"BF.MADD", name}, items);
    } else {
      pipeline.ask({"BF.INSERT", name, "CAPACITY", "7", "ERROR", exact_rate, "ITEMS"}, items);
      filter.emplace();
    }
    for (std::size_t item = first; item < first + count; ++item)
      expected += filter->insert(item).second ? ":1\r\n" : ":0\r\n";
    return expected;
  }

  static constexpr std::size_t item_total = 400;
  Complaint& complaint_;
  std::vector<std::string> items_;
  std::array<Model, workers_max> models_;
};

// A key that only BF.RESERVE creates and only DEL deletes exists if it was created once more than deleted. An
// item is new at most once between a creation and the next deletion.
class Lives final : public Law {
 public:
  explicit Lives(Complaint& complaint) : complaint_(complaint), items_(test::stress_items(item_total)) {}

  void take_turn(StressWorker& worker) override {
    Pipeline pipeline;
    pipeline.ask({"BF.RESERVE", "mortal", exact_rate, "5"});
    for (std::size_t count = worker.below(8); count > 0; --count)
      pipeline.ask({"BF.INSERT", "mortal", "NOCREATE", "ITEMS"}, items_);
    pipeline.ask({"DEL", "mortal"});
    const std::string replies = worker.ask(pipeline.bytes());
    ReplyLines lines(replies);
    const std::string_view reserved = lines.line();
    if (reserved == "+OK") ++begun_;
    if (reserved != "+OK" && reserved != "-ERR item exists") complaint_.make("lives: " + replies);
    for (std::size_t i = 1; i + 1 < pipeline.request_count(); ++i) take_answers(lines.lines());
    const std::string_view deleted = lines.line();
    if (deleted == ":1") ++ended_;
    if (!is_boolean(deleted) || !lines.at_end()) complaint_.make("lives: " + replies);
  }

  void end(StressWorker& worker) override {
    const std::string exists = ask(worker, {"EXISTS", "mortal"});
    if (exists != ":" + std::to_string(begun_ - ended_))
      complaint_.make("lives: " + std::to_string(begun_) + " begun, " + std::to_string(ended_) + " ended, " +
                      exists);
    for (const std::atomic<std::uint64_t>& count : new_counts_)
      if (count > begun_) complaint_.make("lives: an item was new more often than the filter");
  }

 private:
  void take_answers(const std::vector<std::string_view>& answers) {
    if (answers.front() == "-ERR not found") return;
    if (answers.size() != item_total || !std::ranges::all_of(answers, is_boolean))
      return complaint_.make("lives: an answer is " + std::string(answers.front()));
    for (std::size_t item = 0; item < item_total; ++item)
      if (answers[item] == ":1") ++new_counts_[item];
  }

  static constexpr std::size_t item_total = 30;
  Complaint& complaint_;
  std::vector<std::string> items_;
  std::array<std::atomic<std::uint64_t>, item_total> new_counts_{};
  std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint64_t> ended_{0};
};

// Adds create many small filters in a database that is flushed at any time. This disturbs no other client.
class Flushed final : public Law {
 public:
  explicit Flushed(Complaint& complaint) : complaint_(complaint) {}

  void take_turn(StressWorker& worker) override {
    Pipeline pipeline;
    pipeline.ask({"SELECT", "1"});
    for (std::size_t count = worker.below(100); count > 0; --count)
      pipeline.ask(
          {"BF.ADD", "key:" + std::to_string(worker.below(1000)), std::to_string(worker.below(200))});
    if (worker.one_in(4)) pipeline.ask({"FLUSHDB"});
    pipeline.ask({"SELECT", "0"});
    const std::string replies = worker.ask(pipeline.bytes());
    ReplyLines lines(replies);
    for (std::size_t i = 0; i < pipeline.request_count(); ++i)
      if (const std::string_view line = lines.line(); line != "+OK" && !is_boolean(line))
        complaint_.make("flushed: " + replies);
  }

 private:
  Complaint& complaint_;
};

// A filter is dumped and uploaded while all workers add to it. The upload holds all items from before the
// dump, both under a key to which one worker uploads and under a key to which all workers upload.
class Uploaded final : public Law {
 public:
  explicit Uploaded(Complaint& complaint) : complaint_(complaint), items_(test::stress_items(item_total)) {}

  void begin(StressWorker& worker) override {
    // The dump has several pieces.
    if (ask(worker, {"BF.RESERVE", "dumped", "0.01", "500000", "NONSCALING"}) != "+OK")
      complaint_.make("uploaded: no filter");
    worker.ask(Pipeline().ask({"BF.MADD", "dumped"}, known()).bytes());
  }

  void take_turn(StressWorker& worker) override {
    const auto some = std::span(items_).subspan(worker.below(item_total - chunk_items_max), chunk_items_max);
    worker.ask(Pipeline().ask({"BF.MADD", "dumped"}, some).bytes());
    if (is_uploaded_) require_known(worker, "uploaded");
    if (!worker.one_in(4)) return;
    const bool alone = worker.one_in(2);
    const std::string key = alone ? "uploaded:" + std::to_string(worker.index) : "uploaded";
    for (std::string iterator = "0";;) {
      const Piece piece = dump(worker, iterator);
      iterator = piece.next;
      if (iterator == "0") break;
      const std::string answer = ask(worker, {"BF.LOADCHUNK", key, iterator, piece.bytes});
      if (answer != "+OK" && (alone || !is_in_the_way(answer))) complaint_.make("uploaded: " + answer);
    }
    if (alone) {
      require_known(worker, key);
      ask(worker, {"DEL", key});
    } else if (ask(worker, {"EXISTS", key}) == ":1") {
      is_uploaded_ = true;
    }
  }

 private:
  struct Piece {
    std::string next;
    std::string bytes;
  };

  // Another worker has begun a new upload, or has finished it.
  static bool is_in_the_way(std::string_view answer) {
    return answer == "-ERR not found" || answer == "-ERR received bad data";
  }

  [[nodiscard]] std::span<const std::string> known() const { return std::span(items_).first(known_items); }

  void require_known(StressWorker& worker, const std::string& key) {
    const std::string replies = worker.ask(Pipeline().ask({"BF.MEXISTS", key}, known()).bytes());
    ReplyLines lines(replies);
    const std::vector<std::string_view>& found = lines.lines();
    if (found.size() != known_items || !std::ranges::all_of(found, [](auto line) { return line == ":1"; }))
      complaint_.make("uploaded: " + key + " has not all items: " + replies);
  }

  // Parses "*2\r\n:next\r\n$length\r\nbytes\r\n".
  Piece dump(StressWorker& worker, const std::string& iterator) {
    const std::string reply = worker.ask(Pipeline().ask({"BF.SCANDUMP", "dumped", iterator}).bytes());
    ReplyLines lines(reply);
    if (lines.line() != "*2") complaint_.make("uploaded: a piece is " + first_line(reply));
    Piece piece{.next = std::string(lines.line()), .bytes = {}};
    if (!piece.next.starts_with(':')) return {.next = "0", .bytes = {}};
    piece.next.erase(0, 1);
    const std::string_view length = lines.line();
    const auto begin = static_cast<std::size_t>(length.data() + length.size() - reply.data()) + 2;
    piece.bytes = reply.substr(begin, reply.size() - begin - 2);
    return piece;
  }

  static constexpr std::size_t known_items = 40;
  static constexpr std::size_t item_total = 100'000;
  Complaint& complaint_;
  std::vector<std::string> items_;
  std::atomic<bool> is_uploaded_{false};
};

TEST_CASE("clients get right answers while other clients change the structure", "[stress]") {
  const StressOptions options = StressOptions::from_environment();
  INFO(options.rerun());
  REQUIRE(options.thread_count < workers_max);
  StressWorld world(options);
  StressWorker& overseer = world.overseer();

  std::vector<std::unique_ptr<Law>> laws;
  laws.push_back(std::make_unique<PassedAround>(world.complaint));
  laws.push_back(std::make_unique<Published>(world.complaint));
  laws.push_back(std::make_unique<OwnKeys>(world.complaint));
  laws.push_back(std::make_unique<Lives>(world.complaint));
  laws.push_back(std::make_unique<Flushed>(world.complaint));
  laws.push_back(std::make_unique<Uploaded>(world.complaint));
  for (const auto& law : laws) law->begin(overseer);

  std::atomic<std::uint64_t> turn_count{0};
  const SteadyTime end = std::chrono::steady_clock::now() + options.duration;
  const auto work = [&](StressWorker& worker) {
    while (std::chrono::steady_clock::now() < end && !world.complaint.made()) {
      laws[worker.below(laws.size())]->take_turn(worker);
      ++turn_count;
    }
  };
  std::vector<std::thread> threads = world.start(work);
  for (std::thread& thread : threads) thread.join();
  for (const auto& law : laws) law->end(overseer);
  CAPTURE(turn_count.load());
  CHECK(world.complaint.text() == "");
}

}  // namespace
}  // namespace sepal::session::structure_property
