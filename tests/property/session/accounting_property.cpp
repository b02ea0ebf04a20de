// Many workers add the same items to the same keys. For each new item exactly one add is answered 1, no
// answered item is ever denied, and a filter's count equals the number of adds that were answered 1.
//
//     overseer   change structure |             | compare | change structure | ...
//     workers                     | add and ask |         |                  | add and ask
//
// The overseer creates, deletes, renames and flushes filters between the phases, so that each answer belongs
// to a known filter. In the phases, the first worker that adds to a free key creates the filter.
// structure_property.cpp tests changes of structure during the requests.
#include <barrier>

#include "property/session/stress.hpp"
#include "support/catch.hpp"
#include "support/values.hpp"

namespace sepal::session::accounting_property {
namespace {

using namespace std::string_view_literals;
using namespace test;

constexpr std::size_t item_total = 800;
constexpr std::size_t phase_items_max = 300;
constexpr std::size_t chunk_items_max = 40;
constexpr std::size_t pipeline_requests_max = 60;
constexpr std::array keys{"first"sv, "second"sv, "third"sv};

// How a filter is created.
struct Shape {
  std::string_view error_rate;
  std::uint64_t capacity;
  std::string_view expansion;  // "0": it does not scale
  bool exact;                  // has no false positives among so few items

  [[nodiscard]] bool scaling() const { return expansion != "0"; }
};
constexpr Shape shapes[] = {{"1e-12", 1, "2", true},
                            {"1e-12", 10, "4", true},
                            {"1e-12", 60, "1", true},
                            {"0.01", 100, "2", false},
                            {"1e-12", 600, "1", true},
                            {"1e-12", 200, "32768", true},
                            {"1e-12", 1'000'000, "2", true},
                            // These do not scale.
                            {"1e-12", 300, "0", true},
                            {"1e-12", 600, "0", true},
                            {"0.1", 500, "0", false}};

// A filter from its creation to its end, with its ledger.
struct Incarnation {
  explicit Incarnation(const Shape& how) : shape(how) {}

  Shape shape;
  bool exists = false;  // otherwise the workers create it
  Ledger ledger{item_total};
  std::atomic<bool> refused{false};  // an item was refused, because the filter was full
};

// The data that the workers share. The overseer writes it between the phases.
struct Run {
  explicit Run(const StressOptions& options)
      : world(options), line(static_cast<std::ptrdiff_t>(options.thread_count) + 1) {}

  struct Window {
    std::size_t first = 0;
    std::size_t count = 0;
  };

  StressWorld world;
  std::barrier<> line;
  std::vector<std::string> items = test::stress_items(item_total);
  std::array<std::unique_ptr<Incarnation>, keys.size()> filters;
  std::array<Window, keys.size()> windows;  // items that are added in this phase
  std::atomic<bool> over{false};
};

// One worker in one phase: it adds the window of every key, in an order that is slightly different for each
// worker.
class Phase {
 public:
  Phase(Run& run, StressWorker& worker) : run_(run), worker_(worker) {}

  void work() {
    for (std::size_t key = 0; key < keys.size(); ++key) {
      const Run::Window window = run_.windows[key];
      for (std::size_t i = 0; i < window.count; ++i) left_[key].push_back(window.first + i);
      for (std::size_t i = 0; i + 8 < window.count; ++i)
        std::swap(left_[key][i], left_[key][i + worker_.below(8)]);
      sure_to_exist_[key] = run_.filters[key]->exists;
    }
    while (!run_.world.complaint.made() && fill_pipeline()) {
      check(worker_.ask(pipeline_.bytes()));
    }
  }

 private:
  enum class Kind : std::uint8_t { add, look_up, count };
  struct Question {
    Kind kind;
    std::size_t key;
    std::vector<std::size_t> items{};
    std::vector<bool> must_be_found{};
    std::uint64_t counted_min = 0;
  };

  // False if there is nothing left to add.
  bool fill_pipeline() {
    pipeline_.clear();
    questions_.clear();
    const std::size_t request_count = 1 + worker_.below(pipeline_requests_max);
    while (pipeline_.request_count() < request_count) {
      const std::size_t key = next_key();
      if (left_[key].empty()) break;
      ask_to_add(key, take_chunk(key));
      if (sure_to_exist_[key]) ask_about(key);
    }
    return !questions_.empty();
  }

  // Most often the key with the most items left to add, so that the workers meet there. If it has no items
  // left, no key has.
  std::size_t next_key() {
    const std::size_t key = worker_.below(keys.size());
    if (worker_.one_in(4) && !left_[key].empty()) return key;
    const auto most = std::ranges::max_element(left_, {}, &std::vector<std::size_t>::size);
    return static_cast<std::size_t>(most - left_.begin());
  }

  std::vector<std::size_t> take_chunk(std::size_t key) {
    std::vector<std::size_t>& left = left_[key];
    const std::size_t count = std::min(1 + worker_.below(chunk_items_max), left.size());
    std::vector<std::size_t> chunk(left.end() - static_cast<std::ptrdiff_t>(count), left.end());
    left.resize(left.size() - count);
    if (worker_.one_in(4)) chunk.push_back(chunk.front());
    return chunk;
  }

  [[nodiscard]] std::vector<std::string> texts(const std::vector<std::size_t>& items) const {
    std::vector<std::string> found;
    for (const std::size_t item : items) found.push_back(run_.items[item]);
    return found;
  }

  void ask_to_add(std::size_t key, std::vector<std::size_t> items) {
    const std::string_view name = keys[key];
    if (!sure_to_exist_[key]) {
      const Shape& shape = run_.filters[key]->shape;
      pipeline_.ask({"BF.INSERT", name, "CAPACITY", std::to_string(shape.capacity), "ERROR", shape.error_rate,
                     "EXPANSION", shape.expansion, "ITEMS"},
                    texts(items));
      sure_to_exist_[key] = true;
    } else if (worker_.one_in(3)) {
      pipeline_.ask({"BF.INSERT", name, "NOCREATE", "ITEMS"}, texts(items));
    } else if (worker_.one_in(2)) {
      pipeline_.ask({"BF.MADD", name}, texts(items));
    } else {
      for (const std::size_t item : items) {
        pipeline_.ask({"BF.ADD", name, run_.items[item]});
        questions_.push_back({.kind = Kind::add, .key = key, .items = {item}});
      }
      return;
    }
    questions_.push_back({.kind = Kind::add, .key = key, .items = std::move(items)});
  }

  void ask_about(std::size_t key) {
    const Incarnation& filter = *run_.filters[key];
    if (worker_.one_in(4)) {
      questions_.push_back({.kind = Kind::count, .key = key, .counted_min = filter.ledger.new_count()});
      pipeline_.ask({"BF.CARD", keys[key]});
    }
    Question question{.kind = Kind::look_up, .key = key};
    for (std::size_t count = 1 + worker_.below(chunk_items_max); count > 0; --count) {
      question.items.push_back(worker_.below(item_total));
      question.must_be_found.push_back(filter.ledger.must_be_found(question.items.back()));
    }
    if (worker_.one_in(2)) {
      pipeline_.ask({"BF.MEXISTS", keys[key]}, texts(question.items));
      questions_.push_back(std::move(question));
      return;
    }
    for (std::size_t i = 0; i < question.items.size(); ++i) {
      pipeline_.ask({"BF.EXISTS", keys[key], run_.items[question.items[i]]});
      questions_.push_back({.kind = Kind::look_up,
                            .key = key,
                            .items = {question.items[i]},
                            .must_be_found = {question.must_be_found[i]}});
    }
  }

  void check(const std::string& replies) {
    ReplyLines lines(replies);
    for (std::vector<bool>& added : added_before_) added.assign(item_total, false);
    for (const Question& question : questions_) {
      const std::vector<std::string_view>& answers = lines.lines();
      if (question.kind == Kind::add) check_added(question, answers);
      if (question.kind == Kind::look_up) check_found(question, answers);
      if (question.kind == Kind::count) check_counted(question, answers.front());
    }
    if (!lines.at_end()) complain(questions_.back(), "more replies than requests");
  }

  void check_added(const Question& question, const std::vector<std::string_view>& answers) {
    Incarnation& filter = *run_.filters[question.key];
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const std::size_t item = question.items[i];
      if (answers[i] == ":0" || answers[i] == ":1") {
        filter.ledger.add_answered(item, answers[i] == ":1");
        added_before_[question.key][item] = true;
      } else if (answers[i] == "-ERR non scaling filter is full" && !filter.shape.scaling()) {
        filter.refused = true;
        if (i + 1 != answers.size())
          complain(question, "answers behind the one that says the filter is full");
        return;
      } else {
        return complain(question, "an add is answered " + std::string(answers[i]));
      }
    }
    if (answers.size() != question.items.size()) complain(question, "items without an answer");
  }

  void check_found(const Question& question, const std::vector<std::string_view>& answers) {
    if (answers.size() != question.items.size()) return complain(question, "items without an answer");
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const std::size_t item = question.items[i];
      const bool must_be_found = question.must_be_found[i] || added_before_[question.key][item];
      if (answers[i] != ":1" && (answers[i] != ":0" || must_be_found))
        complain(question, "a look-up of " + run_.items[item] + " is answered " + std::string(answers[i]));
    }
  }

  void check_counted(const Question& question, std::string_view answer) {
    const Shape& shape = run_.filters[question.key]->shape;
    const std::uint64_t counted = std::strtoull(answer.data() + 1, nullptr, 10);
    if (!answer.starts_with(':') || counted < question.counted_min ||
        (!shape.scaling() && counted > shape.capacity))
      complain(question, "BF.CARD is " + std::string(answer) + " when at least " +
                             std::to_string(question.counted_min) + " were new");
  }

  void complain(const Question& question, const std::string& text) {
    run_.world.complaint.make(std::string(keys[question.key]) + ": " + text);
  }

  Run& run_;
  StressWorker& worker_;
  Pipeline pipeline_;
  std::vector<Question> questions_;
  std::array<std::vector<std::size_t>, keys.size()> left_;
  std::array<bool, keys.size()> sure_to_exist_{};
  std::array<std::vector<bool>, keys.size()> added_before_;  // in this pipeline
};

// Runs between the phases.
class Overseer {
 public:
  explicit Overseer(Run& run) : run_(run), worker_(run.world.overseer()) {
    for (std::size_t key = 0; key < keys.size(); ++key) begin_filter(key);
  }

  void change_structure() {
    const std::size_t key = worker_.below(keys.size());
    switch (worker_.below(8)) {
      case 0:
        expect({"DEL", keys[key]}, run_.filters[key]->exists ? ":1" : ":0");
        begin_filter(key);
        break;
      case 1: rename(key, (key + 1) % keys.size()); break;
      case 2:
        expect({worker_.one_in(2) ? "FLUSHALL"sv : "FLUSHDB"sv}, "+OK");
        for (std::size_t each = 0; each < keys.size(); ++each) begin_filter(each);
        break;
      default: break;  // The filters stay, and grow.
    }
    for (Run::Window& window : run_.windows) {
      window.count = worker_.below(phase_items_max);
      window.first = worker_.below(item_total - window.count);
    }
  }

  void compare() {
    for (std::size_t key = 0; key < keys.size(); ++key) {
      Incarnation& filter = *run_.filters[key];
      filter.exists = filter.exists || run_.windows[key].count > 0;
      std::string fault = filter.ledger.fault(ask({"BF.CARD", keys[key]}), filter.shape.exact);
      if (filter.refused && filter.ledger.new_count() != filter.shape.capacity)
        fault = "an item found the filter full, but it holds " + std::to_string(filter.ledger.new_count());
      if (fault.empty()) fault = denied(key);
      if (fault.empty()) fault = ill_filled(key);
      if (!fault.empty()) run_.world.complaint.make(std::string(keys[key]) + ": " + fault);
    }
  }

 private:
  std::string ask(std::initializer_list<std::string_view> words) {
    const std::string reply = worker_.ask(Pipeline().ask(words).bytes());
    return reply.substr(0, reply.find('\r'));
  }

  void expect(std::initializer_list<std::string_view> words, std::string_view expected) {
    if (const std::string reply = ask(words); reply != expected)
      run_.world.complaint.make(std::string(*words.begin()) + " is answered " + reply);
  }

  // Checks that every added item is found.
  std::string denied(std::size_t key) {
    const Ledger& ledger = run_.filters[key]->ledger;
    const std::string replies = worker_.ask(Pipeline().ask({"BF.MEXISTS", keys[key]}, run_.items).bytes());
    ReplyLines lines(replies);
    const std::vector<std::string_view>& answers = lines.lines();
    for (std::size_t item = 0; item < item_total; ++item)
      if (ledger.must_be_found(item) && answers[item] != ":1") return run_.items[item] + " is denied";
    return {};
  }

  // Layers are filled to their capacity, never above it, before a filter grows.
  std::string ill_filled(std::size_t key) {
    const GateClosed closed(run_.world.ground.gate);
    const bloom::Filter* const filter =
        sepal::test::filter_at(run_.world.ground.keyspace, {.database = 0, .key = keys[key]});
    if (filter == nullptr) return {};
    const std::vector<bloom::LayerView> layers = filter->layers();
    for (const bloom::LayerView& layer : layers) {
      const bool newest = &layer == &layers.back();
      const std::uint64_t capacity = layer.plan().capacity;
      if (layer.item_count() > capacity || (!newest && layer.item_count() < capacity))
        return "a layer for " + std::to_string(capacity) + " holds " + std::to_string(layer.item_count());
    }
    return {};
  }

  void begin_filter(std::size_t key) {
    const Shape& shape = shapes[worker_.below(std::size(shapes))];
    run_.filters[key] = std::make_unique<Incarnation>(shape);
    if (worker_.one_in(2)) return;
    expect({"BF.RESERVE", keys[key], shape.error_rate, std::to_string(shape.capacity), "EXPANSION",
            shape.expansion},
           "+OK");
    run_.filters[key]->exists = true;
  }

  void rename(std::size_t from, std::size_t to) {
    if (!run_.filters[from]->exists) return;
    expect({"RENAME", keys[from], keys[to]}, "+OK");
    run_.filters[to] = std::move(run_.filters[from]);
    begin_filter(from);
  }

  Run& run_;
  StressWorker& worker_;
};

TEST_CASE("many workers answer 1 exactly once for each new item, and deny no answered item", "[stress]") {
  const StressOptions options = StressOptions::from_environment();
  INFO(options.rerun());
  Run run(options);
  const auto work = [&run](StressWorker& worker) {
    for (;;) {
      run.line.arrive_and_wait();
      if (run.over) return;
      Phase(run, worker).work();
      run.line.arrive_and_wait();
    }
  };
  std::vector<std::thread> threads = run.world.start(work);
  Overseer overseer(run);
  std::uint64_t phase_count = 0;
  const SteadyTime end = std::chrono::steady_clock::now() + options.duration;
  while (std::chrono::steady_clock::now() < end && !run.world.complaint.made()) {
    overseer.change_structure();
    run.line.arrive_and_wait();
    run.line.arrive_and_wait();
    overseer.compare();
    ++phase_count;
  }
  run.over = true;
  run.line.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  CAPTURE(phase_count);
  CHECK(run.world.complaint.text() == "");
}

}  // namespace
}  // namespace sepal::session::accounting_property
