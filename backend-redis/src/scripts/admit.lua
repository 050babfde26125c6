-- Admits `token`, a decimal text, unless a higher one was seen under the name `fence`.
-- Gives nil if it is admitted, else the higher one; false if what is there is no token.
-- Compared as text: tokens can exceed what Lua's numbers hold exactly.
local function refuse(fence, token)
  local seen = redis.pcall('GET', fence)
  if type(seen) == 'table' or seen and not string.find(seen, '^[1-9]%d*$') then return false end
  if seen and (#seen > #token or #seen == #token and seen > token) then return seen end
  if seen ~= token then redis.call('SET', fence, token) end
  return nil
end
