-- KEYS: records.
-- For each: {0, token or '0'} free; {1, token, owner, left, metadata} held; {2, token} held by others;
-- {3} none; {-1} damaged.
local now = server_time()
local results = {}
for at, key in ipairs(KEYS) do
  local record = read(key, now)
  if not record then
    results[at] = { -1 }
  elseif record.held then
    results[at] = { 1, text(record.token), record.owner, record.deadline - now, record.metadata }
  elseif record.shared > now then
    results[at] = { 2, text(record.token) }
  elseif record.token > 0 then
    results[at] = { 0, text(record.token) }
  else
    results[at] = { 3 }
  end
end
return results
