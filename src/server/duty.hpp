// Decides how many workers serve clients, and when clients move from one worker to another.
//
// Workers that share a load that one of them can carry do the same work for more CPU: each of them falls
// asleep and is woken more often, and has fewer clients in each round. So one worker serves, and the others
// rest. At even intervals the acceptor *looks* at what the workers did since its last look. When a serving
// worker is pressed and a core is idle, a resting worker serves too. When fewer workers can carry the load,
// or when no core is idle and the workers wait for their clients, the last of them rests.
//
//     serving              resting
//     worker 0, worker 1 | worker 2, worker 3        a boundary moves; the first ones serve
//
// Clients follow by gifts: a worker gives a share of the clients that ask to another one, each when it asks.
// A worker that rests gives all, so a client that never asks stays where it is.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

namespace sepal::server {

// Confined to the thread that looks.
class Duty {
 public:
  // What a worker did since the last look.
  struct Work {
    double busy = 0;                       // the share of a core that it used: 0 to 1
    std::chrono::duration<double> wait{};  // the mean wait for its long batches of a request that came then
  };
  // `from` gives `share` of its clients to `to`.
  struct Gift {
    std::size_t from = 0;
    std::size_t to = 0;
    double share = 0;  // above 0, at most 1; 1: all clients, until `from` serves again

    bool operator==(const Gift&) const = default;
  };

  // At first one worker serves.
  explicit Duty(std::size_t worker_count) : worker_count_(worker_count) {}

  [[nodiscard]] std::size_t serving() const { return serving_; }
  // Sets it: 1 to the number of workers.
  void serve(std::size_t count);

  // Whether the next look asks how many cores are idle.
  [[nodiscard]] static bool asks_for_cores(std::span<const Work> serving);

  // Decides anew how many serve. Returns the gifts until the next look, but for those of resting workers.
  // `idle_cores`: how many cores nothing used since the last look, 0.7 for instance.
  std::vector<Gift> look(std::span<const Work> serving, double idle_cores);

  // The worker to which a resting worker gives all its clients.
  [[nodiscard]] std::size_t heir_of(std::size_t resting) const { return resting % serving_; }

 private:
  void wake(std::span<const std::size_t> pressed, double idle_cores, std::vector<Gift>& gifts);
  void rest(std::span<const Work> serving, bool some_are_pressed, double idle_cores);

  std::size_t worker_count_;
  std::size_t serving_ = 1;
  std::size_t calm_ = 0;     // how sure it is that one worker less will do
  std::size_t moving_ = 0;   // so many looks, clients still move to a worker that woke
  std::size_t pause_ = 0;    // so many looks wake no worker
  std::size_t starved_ = 0;  // looks in which a worker was pressed and no core was idle
};

}  // namespace sepal::server
