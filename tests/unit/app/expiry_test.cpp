#include "app/threads/expiry.hpp"

#include <sepal/base/gate.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include "support/catch.hpp"
#include "support/eventually.hpp"
#include "support/freeing_housekeeper.hpp"
#include "support/recording_journal.hpp"

namespace expiry_test {

using namespace sepal;

TEST_CASE("while a script is suspended, keys that are due stay") {
  Gate gate(1);
  test::FreeingHousekeeper housekeeper;
  keyspace::Keyspace keys({}, housekeeper);
  test::RecordingJournal journal(1);
  writers::Uploads uploads(keys);
  app::Expiry expiry;
  gate.close();
  REQUIRE(writers::create(keys, {.key = "due"}, {}));
  REQUIRE(keys.set_deadline({.key = "due"}, 1));
  expiry.begin({.gate = gate, .side = 0, .keyspace = keys, .log = journal.log(0), .uploads = uploads});
  gate.reserve();
  gate.open();
  // The thread has been inside.
  const auto has_looked = [&] {
    Gate::Visits visits;
    gate.note_visits(visits);
    return visits[0] >= 2;
  };
  REQUIRE(test::eventually(has_looked));
  const auto is_there = [&] {
    const GateClosed closed(gate);
    return keys.find({.key = "due"}) != nullptr;
  };
  CHECK(is_there());
  CHECK(journal.operations().empty());
  gate.close();
  gate.unreserve();
  gate.open();
  CHECK(test::eventually([&] { return !is_there(); }));
  expiry.stop();
  CHECK(journal.operations().size() == 1);
}

}  // namespace expiry_test
