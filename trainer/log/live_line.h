// A progress line at the bottom of a terminal, rewritten in place. Draws nothing if stdout is not a
// terminal that can move its cursor.
#pragma once
#include <cstdint>
#include <string>

namespace bellows {

class LiveLine {
 public:
  // Draws only if `wanted`, stdout is such a terminal, TERM is not "dumb" and NO_COLOR is not set.
  explicit LiveLine(bool wanted = true);
  ~LiveLine() { clear(); }
  LiveLine(LiveLine&&) = delete;

  bool on() const { return on_; }
  bool due() const;                    // at least 0.1 s since the last draw()
  int width() const;                   // columns of the terminal
  void draw(const std::string& text);  // ASCII; cut to the width
  void clear();                        // call before printing anything else

 private:
  bool on_;
  bool drawn_ = false;
  int64_t drawn_ns_ = 0;
};

}  // namespace bellows
