#include "server/duty.hpp"

#include "support/catch.hpp"

namespace sepal::server::duty_test {
namespace {

using Work = Duty::Work;
using Gift = Duty::Gift;
using Gifts = std::vector<Gift>;
using std::chrono::milliseconds;

constexpr Work pressed{.busy = 0.97};
constexpr Work lazy{.busy = 0.1};

// As many workers as `works` has serve.
Duty duty_of(std::size_t worker_count, std::size_t serving) {
  Duty duty(worker_count);
  duty.serve(serving);
  return duty;
}

// Looks until another number of workers serves. Returns how many looks that took; 0: it does not come to
// that.
std::size_t looks_until_change(Duty& duty, const std::vector<Work>& works, double idle_cores) {
  const std::size_t before = duty.serving();
  for (std::size_t looks = 1; looks <= 100; ++looks) {
    duty.look(works, idle_cores);
    if (duty.serving() != before) return looks;
  }
  return 0;
}

TEST_CASE("one worker serves until it is pressed and a core is idle") {
  Duty duty(4);
  CHECK(duty.serving() == 1);
  CHECK(duty.look(std::vector{Work{.busy = 0.84}}, 3).empty());
  CHECK(duty.look(std::vector{pressed}, 0.4).empty());
  CHECK(duty.serving() == 1);
  CHECK(duty.look(std::vector{pressed}, 0.6) == Gifts{{.from = 0, .to = 1, .share = 0.5}});
  CHECK(duty.serving() == 2);
}

TEST_CASE("clients that wait for the long batches of others press a worker that is not busy") {
  Duty duty(2);
  CHECK(duty.look(std::vector{Work{.busy = 0.3, .wait = std::chrono::microseconds(90)}}, 1).empty());
  CHECK(duty.look(std::vector{Work{.busy = 0.3, .wait = milliseconds(1)}}, 1).size() == 1);
  CHECK(duty.serving() == 2);
}

TEST_CASE("each pressed worker wakes another one, as far as there are cores and workers") {
  Duty duty = duty_of(8, 2);
  const std::vector both{pressed, pressed};
  CHECK(duty.look(both, 1.2).size() == 1);
  CHECK(duty.serving() == 3);
  duty.serve(2);
  CHECK(duty.look(both, 6).size() == 2);
  CHECK(duty.serving() == 4);
  Duty all = duty_of(2, 2);
  CHECK(all.look(both, 6).empty());
  CHECK(all.serving() == 2);
}

TEST_CASE("a pressed worker gives clients to one that is far less busy, before another one wakes") {
  Duty duty = duty_of(4, 3);
  const Gifts gifts = duty.look(std::vector{Work{.busy = 0.6}, Work{.busy = 0.2}, Work{.busy = 1}}, 2);
  CHECK(gifts == Gifts{{.from = 2, .to = 1, .share = 0.4}});
  CHECK(duty.serving() == 3);
}

TEST_CASE("the last worker rests when the others can carry the load for some time") {
  Duty duty = duty_of(3, 3);
  CHECK(looks_until_change(duty, {{.busy = 0.5}, {.busy = 0.5}, {.busy = 0.3}}, 1) == 0);
  CHECK(looks_until_change(duty, {{.busy = 0.5}, {.busy = 0.4}, {.busy = 0.2}}, 1) == 20);
  CHECK(duty.serving() == 2);
  CHECK(duty.heir_of(2) == 0);
  // The time begins anew with each look that says otherwise.
  for (int looks = 0; looks < 19; ++looks) duty.look(std::vector{lazy, lazy}, 1);
  duty.look(std::vector{Work{.busy = 0.5}, Work{.busy = 0.5}}, 1);
  CHECK(looks_until_change(duty, {lazy, lazy}, 1) == 20);
  CHECK(looks_until_change(duty, {lazy}, 1) == 0);
}

TEST_CASE(
    "without an idle core, a worker rests as soon as the others have the time, and is not woken at once") {
  Duty duty = duty_of(2, 2);
  const std::vector<Work> works{{.busy = 0.5}, {.busy = 0.4}};
  CHECK(looks_until_change(duty, works, 0.1) == 3);
  CHECK(duty.serving() == 1);
  CHECK(looks_until_change(duty, {pressed}, 1) == 10);
  // Two workers that use two cores are needed.
  CHECK(looks_until_change(duty, {pressed, Work{.busy = 0.8}}, 0) == 0);
}

TEST_CASE("what takes all cores may be less urgent: a pressed worker wakes another one for a trial") {
  Duty duty(2);
  // It gets less of a core than it would use.
  CHECK(looks_until_change(duty, {Work{.busy = 0.59}}, 0) == 0);
  CHECK(looks_until_change(duty, {Work{.busy = 0.6}}, 0) == 100);
  SECTION("both get their cores") {
    CHECK(looks_until_change(duty, {pressed, pressed}, 0) == 0);
  }
  SECTION("the second takes from the first, or from the clients") {
    CHECK(looks_until_change(duty, {Work{.busy = 0.5}, Work{.busy = 0.4}}, 0) == 5);
    CHECK(looks_until_change(duty, {pressed}, 0) == 0);
    CHECK(looks_until_change(duty, {pressed}, 0) > 0);
  }
}

TEST_CASE("cores are asked for when another worker might be woken, or rest") {
  CHECK_FALSE(Duty::asks_for_cores(std::vector{lazy}));
  CHECK(Duty::asks_for_cores(std::vector{Work{.busy = 0.5}}));
  CHECK(Duty::asks_for_cores(std::vector{Work{.busy = 0.1, .wait = milliseconds(1)}}));
  CHECK(Duty::asks_for_cores(std::vector{lazy, lazy}));
}

}  // namespace
}  // namespace sepal::server::duty_test
