// A line at the bottom of a terminal that is rewritten in place, for progress. Draws nothing if
// stdout is a pipe or a file, or if the terminal cannot move its cursor.
#pragma once
#include <cstdint>
#include <string>

namespace bellows {

class LiveLine {
 public:
  // Draws only if stdout is a terminal that moves its cursor and NO_COLOR is not set.
  explicit LiveLine(bool wanted = true);
  ~LiveLine() { clear(); }
  LiveLine(LiveLine&&) = delete;

  bool on() const { return on_; }
  bool due() const;   // 0.1 s after the last drawing
  int width() const;  // columns of the terminal
  void draw(const std::string& text);
  void clear();  // call it before printing anything else

 private:
  bool on_;
  bool drawn_ = false;
  int64_t drawn_ns_ = 0;
};

}  // namespace bellows
