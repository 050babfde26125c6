-- KEYS: records.
-- For each, with how many queue at the end: {0, token or '0', n} free; {1, token, owner, left, metadata, n}
-- held; {2, token, n} held by others; {3} none; {-1} damaged.
local now = server_time()
local results = {}
for at, key in ipairs(KEYS) do
  local record = read(key, now)
  -- The dead at its head must not make a free lock look awaited.
  if record then first_alive(key, now, record) end
  local waiters = record and record.queue and record.queue.size or 0
  if not record then
    results[at] = { -1 }
  elseif record.held then
    results[at] = { 1, text(record.token), record.owner, record.deadline - now, record.metadata, waiters }
  elseif record.shared > now then
    results[at] = { 2, text(record.token), waiters }
  elseif record.token > 0 then
    results[at] = { 0, text(record.token), waiters }
  else
    results[at] = { 3 }
  end
end
return results
