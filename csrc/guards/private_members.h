// Reading torch's settings where torch keeps them. Its accessors are calls into other libraries, some with look-ups by
// hash; a guard makes them at every call of compiled code. The fields are private: naming a member in an explicit
// instantiation is where C++ lets anyone do that.
#pragma once

// After this, `object.*revealed(Tag{})` is the member `type::name` of an object.
#define DL_REVEAL(Tag, type, name)                         \
  struct Tag {                                             \
    friend constexpr auto revealed(Tag);                   \
  };                                                       \
  template <auto member>                                   \
  struct Tag##Member {                                     \
    friend constexpr auto revealed(Tag) { return member; } \
  };                                                       \
  template struct Tag##Member<&type::name>
